"""Columns of an older schema version as columns of the present one, with Java's cast rules.

Import `evolve` and the casts.
Changing a schema lives in `lakeidx.format.schema.changes`; casts of landing files in `lakeidx.landing`.
"""
