"""The state index: every key's location in an embedded store, loaded from the table and kept beside it.

Import the index through `lakeidx.key_index.registry`.
Lookup files for readers live in `lakeidx.lookup`.
"""
