"""The history of a table as verbs: branches, tags, rollback.

Import `History`, the verbs, and `HistoryMethods`, the same as methods of a table. What they do is in `lakeidx.maintenance` and
`lakeidx.table.expiration`.
"""
