"""Hudi's bucket index: bucket ids from key hashes, consistent-hashing rings and their resizing plans.

Import the index through `lakeidx.key_index.registry`.
Resizing a table lives in `lakeidx.maintenance.ring_resize`.
"""
