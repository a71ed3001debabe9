"""Rows of one bucket brought into merge order: by key, then user sequence fields, then sequence number.

Null sequence fields come first, also when the fields are declared descending: only the order of values turns round.
Of rows equal in all that, retracts come before adds; what is still equal stays in row order.

source   org.apache.paimon.mergetree.SortBufferWriteBuffer, org.apache.paimon.mergetree.compact.SortMergeReaderWithMinHeap,
         org.apache.paimon.utils.UserDefinedSeqComparator; release 1.4.2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.order.key import argsort_keys, run_starts
from lakeidx.data.merge.levels import Int64s
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.types import DataType, Root

BIGINT = DataType(Root.BIGINT, nullable=False)
_TINYINT = DataType(Root.TINYINT, nullable=False)


def merge_order(kv: pa.Table, schema: TableSchema) -> Int64s:
    """Compute the permutation that sorts a KV table into merge order: row ``result[k]`` comes k-th.

    kv       rows of one bucket in any order; all key columns and sequence fields among its columns
    returns  int64[n]
    """
    keys = [kv.column(k) for k in schema.trimmed_primary_keys]
    if _in_merge_order(kv, schema):
        return argsort_keys(keys, schema.key_types)
    columns, types = sequence_columns(kv, schema)
    return argsort_keys([*keys, *columns], [*schema.key_types, *types])


def _in_merge_order(kv: pa.Table, schema: TableSchema) -> bool:
    """Return True when the rows of one key are in merge order already, as a writer numbers them: a stable sort keeps that order."""
    if schema.table_options.sequence_field:
        return False
    numbers = _ints(kv.column(SEQUENCE_NUMBER))
    return bool((numbers[1:] > numbers[:-1]).all())


def sequence_columns(kv: pa.Table, schema: TableSchema) -> tuple[list[pa.Array], list[DataType]]:
    """Return what orders rows of one key, as columns to sort ascending: (columns, types)."""
    columns: list[pa.Array | pa.ChunkedArray] = []
    types: list[DataType] = []
    options = schema.table_options
    for field in map(schema.field, options.sequence_field):
        if options.sequence_field_sort_order == "descending":
            columns.append(pa.array(descending_ranks(kv.column(field.name), field.type)))
            types.append(BIGINT)
        else:
            columns.append(kv.column(field.name))
            types.append(field.type.with_nullable(True))
    adds = 1 - (_ints(kv.column(VALUE_KIND)) & 1)
    return [*columns, kv.column(SEQUENCE_NUMBER), pa.array(adds, pa.int8())], [*types, BIGINT, _TINYINT]


def descending_ranks(column: pa.ChunkedArray, t: DataType) -> Int64s:
    """Return int64[n] that rise where the values fall: 0 for null, then 1 for the greatest value."""
    nullable = t.with_nullable(True)
    order = argsort_keys([column], [nullable])
    ordered = column.take(pa.array(order))
    starts = run_starts([ordered], [nullable])
    if len(starts) == 0:
        return np.zeros(0, np.int64)
    group = np.zeros(len(column), np.int64)
    group[starts[1:]] = 1
    np.cumsum(group, out=group)
    has_null = column.null_count > 0
    # Groups rise with the values, the nulls being group 0 when there are any.
    turned = len(starts) - group
    if has_null:
        turned[group == 0] = 0
    ranks = np.empty(len(column), np.int64)
    ranks[order] = turned
    return ranks


def _ints(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    return np.concatenate([c.to_numpy(zero_copy_only=False) for c in column.chunks] or [np.zeros(0, np.int8)])
