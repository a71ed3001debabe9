"""Identity of a set of rows, independent of their order and of the tasks that read them: the sum of their hashes.

Spark cuts the same rows into other tasks when it likes, so neither files nor the order of rows tell whether a batch comes again
with other content.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.format.schema.table_schema import VALUE_KIND, TableSchema
from lakeidx.types import DataType, Root

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def content_of(rows: pa.Table, schema: TableSchema) -> int:
    """Sum of the rows' hashes, 0 to 2**64 - 1; the content of two tables together is the sum of both, modulo 2**64.

    rows      the table's columns, and the row kinds when there are any
    returns   a number that differs when a value differs, but for chance (1 in 2**32 for a row), or one in an ARRAY, MAP, ROW or
              VARIANT column, which would have to be looked at one by one
    """
    flat = [f for f in schema.fields if not f.type.is_nested and f.type.root is not Root.VARIANT]
    columns, types = [rows.column(f.name) for f in flat], [f.type for f in flat]
    if VALUE_KIND in rows.column_names:
        columns.append(rows.column(VALUE_KIND))
        types.append(DataType(Root.TINYINT))
    hashes = hash_columns(columns, types, rows.num_rows).view(np.uint32).astype(np.uint64)
    # Mixed, so that two rows that swap parts of their hashes do not come to the same sum.
    hashes = (hashes + np.uint64(1)) * _ODD
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _ODD
    return int(np.add.reduce(hashes ^ (hashes >> np.uint64(32)), dtype=np.uint64)) & _MASK


def join_contents(contents: list[int]) -> str:
    """Combine the content of several tables, as reports keep it."""
    return f"{sum(contents) & _MASK:016x}"
