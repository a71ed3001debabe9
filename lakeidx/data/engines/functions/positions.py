"""Aggregate functions whose result is one of the input values: they return the row to take it from.

last_value, last_non_null_value, first_value, first_non_null_value, primary-key, max, min, bool_and, bool_or.

source   org.apache.paimon.mergetree.compact.aggregate.Field{Last,First}*Agg, FieldPrimaryKeyAgg, Field{Max,Min}Agg,
         FieldBool{And,Or}Agg, release 1.4.2

Columns as int64 keys that sort like Java compares their values.

source   org.apache.paimon.utils.InternalRowUtils#compare, org.apache.paimon.codegen.SortCodeGenerator, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.data.engines.functions.fixed_width import decimal_words, fixed_values
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import ADD, OLDER, RETRACT, SET, SET_RETRACT, Bools, Int8s, Int64s, Runs, valid_rows
from lakeidx.data.engines.scalar.base import not_comparable
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

PRIMARY_KEY, LAST, LAST_NON_NULL, FIRST, FIRST_NON_NULL, MAX, MIN = range(7)
_MODES = {
    "primary-key": PRIMARY_KEY,
    "last_value": LAST,
    "last_non_null_value": LAST_NON_NULL,
    "first_value": FIRST,
    "first_non_null_value": FIRST_NON_NULL,
    "max": MAX,
    "min": MIN,
    "bool_or": MAX,
    "bool_and": MIN,
}
NAMES = frozenset(_MODES)
_OF_BOOL = frozenset({"bool_or", "bool_and"})


def fold_positions(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> Int64s:
    """Find the row each run's result comes from, -1 for null.

    ops       int8[n] operation codes; no RETRACT for functions that cannot retract
    returns   int64[g]; the row may hold null itself
    errors    InvalidInputError when max or min would have to compare values without order
    """
    mode = _MODES[spec.name]
    valid = valid_rows(column)
    keys: Int64s | None = np.empty(0, np.int64)
    if mode in (MAX, MIN):
        keys = order_keys(column, spec.type) if spec.type.root is not Root.BOOLEAN or spec.name in _OF_BOOL else None
    ordered = keys is not None
    if keys is None:
        keys = np.zeros(len(column), np.int64)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    out = np.empty(runs.count, np.int64)
    compared = _fold(mode, frozen(keys), frozen(valid), frozen(runs.starts), runs.rows, frozen(ops), out)
    if compared and not ordered:
        raise not_comparable(spec)
    return out


@kernel
def _fold(mode, keys, valid, starts, rows, ops, out):  # type: ignore[no-untyped-def]  # noqa: C901 - a kernel is one loop
    """Fill `out`; True when two values were compared."""
    compared = False
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else rows
        at = -1
        seen = False
        for i in range(starts[g], end):
            op = ops[i]
            if op == 0:  # SKIP
                continue
            if op >= 4:  # SET, SET_RETRACT
                at = i
                if op == 5 and mode != 0:
                    at = -1
            elif op == 3:  # RETRACT
                if mode == 0:
                    at = i
                elif mode == 1 or valid[i]:
                    at = -1
            elif mode <= 1:
                if op == 1:
                    at = i
            elif mode == 2:
                if (op == 1 and valid[i]) or (op == 2 and (at < 0 or not valid[at])):
                    at = i
            elif mode <= 4:
                # ADD takes the record's value if none was taken; OLDER offers the accumulated one in its place.
                offered = i if op == 1 else at
                counts = mode == 3 or (offered >= 0 and valid[offered])
                if not seen and counts:
                    seen = True
                    at = offered
                elif op == 2:
                    at = i
            elif valid[i]:
                if at < 0 or not valid[at]:
                    at = i
                else:
                    compared = True
                    if (mode == 5 and keys[at] < keys[i]) or (mode == 6 and keys[i] < keys[at]):
                        at = i
        out[g] = at
    return compared


# The kernel is written with the codes as numbers; keep them in step.
assert (ADD, OLDER, RETRACT, SET, SET_RETRACT) == (1, 2, 3, 4, 5)


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
