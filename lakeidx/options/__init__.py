"""Table options: their descriptors (name, type, default, meaning) and the typed options of a table.

Import `TableOptions` and the descriptors.
Options of an index type live with the index, in `lakeidx.key_index.options`.
"""
