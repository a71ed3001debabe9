"""The state index: the location of every key, in sorted shards on the table's store, built from the table.

Import the index through `lakeidx.key_index.registry`.
Lookup files for readers live in `lakeidx.lookup`.
"""
