"""Any file of a table, decoded to JSON for people: what `lakeidx inspect` prints.

Import `inspect_file`; this package lies above all it must show.
Decoders live beside their format; nothing here is used to read tables.
"""
