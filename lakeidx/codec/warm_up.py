"""Compile the codec's kernels once, before worker processes are forked or a clock is started."""

from __future__ import annotations

import pyarrow as pa

from lakeidx.codec.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.compacted_row_vec import decode_compacted_rows, encode_compacted_rows
from lakeidx.codec.murmur import hash_bytes_many
from lakeidx.codec.order_key import argsort_keys, is_sorted, normalized_keys, run_starts, search_sorted
from lakeidx.types import DataType, Root, to_arrow

_TYPES = [
    DataType(Root.INT),
    DataType(Root.BIGINT),
    DataType(Root.VARCHAR, length=100),
    DataType(Root.DECIMAL, precision=38, scale=2),
    DataType(Root.TIMESTAMP, precision=6),
]


def warm_up() -> None:
    """Compile, or load from the cache beside the source, every kernel of the row, hash and order codecs.

    cost   about a second when cached, some ten seconds in a fresh install; a second call does nothing worth mentioning
    """
    rows = [[None, None, None, None, None], [2, 3, "some longer text", 4, 5], [1, 3, "some longer text", 4, 5]]
    columns = [pa.array(values, pa.int64() if t.root is not Root.VARCHAR else pa.string()).cast(to_arrow(t))
               for values, t in zip(zip(*rows, strict=True), _TYPES, strict=True)]  # fmt: skip
    encoded = encode_rows(columns, _TYPES)
    hash_bytes_many(encoded)
    hash_columns(columns, _TYPES)
    fixed_buckets([columns[2], columns[3]], [_TYPES[2], _TYPES[3]], 2, "hive")
    decode_compacted_rows(encode_compacted_rows(columns, _TYPES), _TYPES, [str(i) for i in range(len(_TYPES))])
    argsort_keys(columns, _TYPES)
    is_sorted(columns, _TYPES)
    run_starts(columns, _TYPES)
    for count in (2, len(_TYPES)):
        keys = normalized_keys(columns[:count], _TYPES[:count])
        search_sorted(keys, keys)
