"""Placing the rows of a batch, the steps of the stage `bucket_assignment`: locate, then place.

Import `place_batch` from `placing`, `Placed` from `placed`, `number_targets` from `targets`.
`by_hash` places through the HASH index, `by_key_index` through any other index type, `in_tasks` in several assigners side by side;
the bucket function needs nothing but `part_keys`. Each gives a `Placed`, so the stage has one body.
Which index types there are, and how one finds keys, belongs to `lakeidx.key_index`; rules for new keys to
`lakeidx.bucket_assignment`.
"""
