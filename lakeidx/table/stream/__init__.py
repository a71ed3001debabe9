"""Following a table: where a stream begins, what each snapshot brings it, and the consumer file by which expiry waits for it.

Import `ChangeFollower`, `Start` and `StreamConsumer`.
What one range of snapshots changed is planned by `lakeidx.table.scan.changes`; Spark's streams are in `lakeidx.spark`.
"""
