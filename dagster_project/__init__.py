"""Dagster definitions of lakeidx: what runs when, and what it reports. No table logic lives here.

`definitions` is the code location and `factory` makes everything of one pipeline file; `assets`, `sensors` and `expectations` hold
what the factory puts together. Nothing is imported from here except by tests and the example in `flights`.
"""
