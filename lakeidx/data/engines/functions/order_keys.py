"""Columns as int64 keys that sort like Java compares their values.

source   org.apache.paimon.utils.InternalRowUtils#compare, org.apache.paimon.codegen.SortCodeGenerator, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines.functions.fixed_width import decimal_words, fixed_values
from lakeidx.data.engines.runs import Bools, Int64s
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_SIMPLE_ROOTS = INT_ROOTS | TIMESTAMP_ROOTS | {Root.DATE, Root.TIME, Root.BOOLEAN}


def order_keys(column: pa.Array, t: DataType) -> Int64s | None:
    """Return the keys in the order of the values, equal only for equal values; None for types without order.

    column    of ``to_arrow(t)``
    returns   int64[n]; whatever for nulls
    order     strings by UTF-8 bytes; floats with -0.0 < 0.0 and NaN on top; decimals by value
    cost      one pass; strings, bytes and decimals of more than 18 digits sort their distinct values
    """
    if t.root in _SIMPLE_ROOTS:
        return fixed_values(column, t).astype(np.int64, copy=False)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return _float_keys(fixed_values(column, t).astype(np.float64))
    if t.root is Root.DECIMAL:
        high, low = decimal_words(column)
        small = low.view(np.int64)
        # Wide types mostly hold values that fit 64 bits; nulls may hold anything, which only costs the sort.
        return small if t.precision <= 18 or bool(np.all(high == small >> 63)) else _rank_of_tuples([high, low])
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        return _text_keys(column)
    return None


def combined_keys(columns: Sequence[tuple[Int64s, Bools | None]]) -> Int64s:
    """Return one key of at least 0 per row, in the order of several columns (the first one first), nulls below all values.

    columns   (keys, rows that are not null or None for all) as of `order_keys`
    cost      one pass while the ranges of the columns multiply to less than 2^63, else a sort
    """
    shifted, total = [], 1
    for keys, valid in columns:
        present = keys if valid is None else keys[valid]
        low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
        total *= high - low + 2
        if total > np.iinfo(np.int64).max:
            return _rank_of_tuples([part for k, v in columns for part in _null_and_key(k, v)])
        # 0 is for null.
        moved = keys - np.int64(low) + 1
        shifted.append((moved if valid is None else np.where(valid, moved, 0), high - low + 2))
    out = shifted[0][0]
    for keys, span in shifted[1:]:
        out = out * np.int64(span) + keys
    return out


def _null_and_key(keys: Int64s, valid: Bools | None) -> list[npt.NDArray[Any]]:
    return [keys] if valid is None else [valid, np.where(valid, keys, 0)]


def _rank_of_tuples(columns: Sequence[npt.NDArray[Any]]) -> Int64s:
    """Compute dense ranks of rows by several columns, the first one first; equal rows have equal ranks."""
    order = np.lexsort(tuple(reversed(columns)))
    changes = np.zeros(len(order), np.int64)
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(changes)
    return ranks


def _float_keys(values: npt.NDArray[np.float64]) -> Int64s:
    bits = values.view(np.int64)
    keys = np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF))
    return np.where(np.isnan(values), np.iinfo(np.int64).max, keys)


def _text_keys(column: pa.Array) -> Int64s:
    """Rank of each string among the distinct ones, by bytes."""
    plain = column.cast(pa.large_binary())
    encoded = plain.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ranks[codes] if len(ranks) else np.zeros(len(column), np.int64)
