"""Compaction of one bucket: levels, what to pick, which steps to take, and rewriting the files.

Import `pick` and `plan` (pure: what universal compaction does with given runs) and `rewrite` (reads, merges and writes one bucket).
Choosing buckets of a table, committing and retrying belong to `lakeidx.maintenance.compaction`.
"""
