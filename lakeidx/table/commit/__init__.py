"""Publishing a snapshot: changes, conflicts with other writers, manifests, put-if-absent.

Import `commit_changes` and `TableChanges`.
What a batch writes lives in `lakeidx.batch`; deletion of snapshots in `lakeidx.table.expiration`.
"""
