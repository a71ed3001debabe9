"""Schema files: the JSON, the typed schema, the rules a schema keeps, and changes from one version to the next.

Import `TableSchema` and its decoder; the rules raise `InvalidInputError`.
Table options live in `lakeidx.options`; casts between versions in `lakeidx.data.cast`.
"""
