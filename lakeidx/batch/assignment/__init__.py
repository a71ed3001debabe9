"""Placing the rows of a batch, the steps of the stage `bucket_assignment`: locate, then place.

Import `place_batch` from `placing`, `Placed` from `placement`.
`by_hash` places through the HASH index, `by_key_index` through any other index type, the bucket function needs nothing but
`row_keys`. Each gives a `Placed`, and `targets` numbers its targets.
Which index types there are, and how one finds keys, belongs to `lakeidx.key_index`; rules for new keys to
`lakeidx.bucket_assignment`.
"""
