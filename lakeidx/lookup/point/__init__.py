"""Point lookups in a table: which buckets and files may hold a key, and the newest row of each key.

Import `TableLookup`.
The stores behind it live in `lakeidx.lookup`.
"""
