"""Compaction of one bucket: levels, what to pick, which steps to take, and rewriting the files.

Import `plan_buckets` (which buckets of a table), `pick` and `plan` (pure: what universal compaction does with given runs) and
`rewrite` (reads, merges and writes one bucket). Committing and retrying belong to `lakeidx.maintenance.compaction`.
"""
