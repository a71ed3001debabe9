"""The dynamic-bucket rules of Paimon: which bucket a new key goes to, and what the HASH index files must hold.

`PartitionIndex` places hashes, `assigner_of` shares them among tasks, `plan_index_update` says what an index file becomes.
Everything works on arrays of hashes and does no I/O; where a known key lives is the business of `lakeidx.key_index`.
"""
