"""What a compaction of level 0 asks of the levels that it does not rewrite: where its keys are there.

Import `find_keys_above`.
Merging what was found, and marking it deleted, belongs to `lakeidx.compaction.rewrite`.
"""
