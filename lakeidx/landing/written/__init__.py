"""Files as people and programs write them: names of columns, spelling of values, sheets of Excel, and checks of the options.

Import `cast_spelled` and `read_with_names`. Readers of texts live in `lakeidx.landing.text`.
"""
