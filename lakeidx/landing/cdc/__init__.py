"""Landing files of database changes: messages of change capture tools, and rows with a column of operations.

Import `read_changes`, which gives pieces of rows with kinds like the readers of other landing files.
What such messages are is in `envelopes`; casts to the table's types do not belong here, see `lakeidx.landing.cast_rows`.
"""
