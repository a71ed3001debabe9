"""Any file of a table, decoded to JSON for people: what `lakeidx inspect` prints.

Import `inspect_file`.
Decoders live beside their format; nothing here is used to read tables.
"""
