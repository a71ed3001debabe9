"""Rows gathered from several tables of one schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel

# Slices are worth more than a gather once they hold this many rows on average.
_ROWS_PER_SLICE = 256


def gather_rows(tables: Sequence[pa.Table], rows: npt.NDArray[np.int64]) -> pa.Table:
    """Take the given rows of the concatenated tables.

    tables   of one schema
    rows     int64[m] positions in the concatenation, in the order wanted
    returns  a table of the same schema; long stretches of neighbouring rows are slices that share memory
    """
    whole = pa.concat_tables(tables)
    if len(rows) == 0:
        return whole.slice(0, 0)
    limit = len(rows) // _ROWS_PER_SLICE + 1
    begins, lengths = np.empty(limit, np.int64), np.empty(limit, np.int64)
    count = stretches(frozen(rows), begins, lengths)
    if count <= limit:
        if count == 1 and len(rows) == whole.num_rows:
            return whole
        pairs = zip(begins[:count].tolist(), lengths[:count].tolist(), strict=True)
        return pa.concat_tables([whole.slice(b, n) for b, n in pairs])
    return take_rows(whole, rows)


def take_column(column: pa.ChunkedArray, indices: pa.Array) -> pa.ChunkedArray:
    """Return ``column.take(indices)``; faster for many chunks."""
    if column.num_chunks > 1 and column.nbytes < 1 << 30:
        column = pa.chunked_array([pa.concat_arrays(column.chunks)])
    return column.take(indices)


def take_rows(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return ``table.take(rows)``; where columns have several chunks, one column's concatenation is the only extra memory."""
    indices, columns = pa.array(rows), table.columns
    if all(column.num_chunks == 1 for column in columns):
        return table.take(indices)
    return pa.Table.from_arrays([take_column(c, indices) for c in columns], schema=table.schema)


@kernel
def stretches(rows: Any, out_begin: Any, out_length: Any) -> Any:
    """Find stretches of consecutive rows as (begin, length) pairs; returns their number, at most the outputs' length."""
    count = 0
    k = 0
    while k < len(rows):
        begin = rows[k]
        length = 1
        while k + length < len(rows) and rows[k + length] == begin + length:
            length += 1
        if count == len(out_begin):
            return count + 1
        out_begin[count] = begin
        out_length[count] = length
        count += 1
        k += length
    return count
