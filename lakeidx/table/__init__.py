"""The state of one table: its metadata, live files, index files, and the buckets that can contain a key.

Import `handle.TableHandle`, `metadata.TableMetadata` and `view`; `scan` plans and reads, `commit` publishes a snapshot,
`expiration` deletes what nothing needs.
Writing batches belongs to `lakeidx.batch`, rewriting files to `lakeidx.compaction`.
"""
