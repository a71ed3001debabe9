"""Keys of a batch and of files as the indexes compare them: codes, sets, ranges, readers of key columns.

Import from the modules.
Hashing of keys for buckets lives in `lakeidx.codec`.
"""
