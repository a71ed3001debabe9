"""Lookups of a level-0 compaction in the levels that it does not rewrite.

Import `find_keys_above`.
Merging what was found, and marking it deleted, belongs to `lakeidx.compaction.rewrite`.
"""
