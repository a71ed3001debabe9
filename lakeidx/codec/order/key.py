"""Sorting rows by Paimon's key order (the table in ``normalized_key``): permutation, runs of equal keys.

source   key order of org.apache.paimon.codegen generated RecordComparator, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import Column
from lakeidx.codec.columns import BytesColumn
from lakeidx.codec.order.kernels import compare_neighbours
from lakeidx.codec.order.normalized_key import OrderField, WordField, order_fields
from lakeidx.types import DataType


def argsort_keys(columns: Sequence[Column], types: Sequence[DataType]) -> npt.NDArray[np.int64]:
    """Sort rows by key; equal keys stay in row order.

    columns  the key columns in key order, at least one
    returns  int64[n] permutation: row ``result[k]`` comes k-th
    errors   InvalidInputError for types without order or columns of other types
    cost     O(n) when already in order; else one 64-bit sort, and again for the rows that stay tied
    """
    fields, n = order_fields(columns, types)
    if _in_order(fields, n):
        return np.arange(n, dtype=np.int64)
    from lakeidx.codec.order.packed_sort import packed_argsort

    return packed_argsort(fields, n)


def run_starts(columns: Sequence[Column], types: Sequence[DataType]) -> npt.NDArray[np.int64]:
    """Return the first row of each run of equal keys, for rows in key order.

    returns  int64[g], increasing, the first 0; empty for no rows
    errors   as for `argsort_keys`
    """
    fields, n = order_fields(columns, types)
    if n == 0:
        return np.zeros(0, np.int64)
    equal = np.ones(n - 1, np.bool_)
    for f in fields:
        if isinstance(f, WordField):
            equal &= f.values[1:] == f.values[:-1]
        else:
            equal &= _neighbour_order(f, n) == 0
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(~equal) + 1))


def _neighbour_order(f: BytesColumn, n: int) -> npt.NDArray[np.int8]:
    order = np.empty(max(0, n - 1), np.int8)
    compare_neighbours(f.data, f.starts, f.lengths, order)
    return order


def _in_order(fields: Sequence[OrderField], n: int) -> bool:
    """Return whether the first n rows are in key order."""
    tied: Any = True
    for f in fields:
        if isinstance(f, WordField):
            before, after = f.values[: max(0, n - 1)], f.values[1:n]
            if np.any((before > after) & tied):
                return False
            tied = (before == after) & tied
        else:
            order = _neighbour_order(f, n)
            if np.any((order > 0) & tied):
                return False
            tied = (order == 0) & tied
        if not np.any(tied):
            break
    return True
