"""One column's aggregate function over all runs of a key-value table.

sum of numbers over whole columns, in Java's arithmetic: integers wrap around at their own width, FLOAT is summed in 32 bits, one
value after another (no pairwise summing).

sum of decimals in 128 bits. Up to 18 digits Java adds longs and does not look at the precision again (a sum may have more digits
than declared); only a long overflow continues in big decimals, where more digits than the precision give null. Above 18 digits
every step does.

product, and the functions of texts, arrays, maps, nested tables and bitmaps: keys with one operation take their value from the
column. The others run the record-at-a-time function over their own rows only: Python once per row of a key that has several. A
plain listagg is joined over whole columns.

source   org.apache.paimon.mergetree.compact.aggregate.FieldSumAgg, org.apache.paimon.utils.DecimalUtils,
         org.apache.paimon.data.Decimal#fromBigDecimal, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.engines.functions.fixed_width import array_of_decimals, array_of_values, decimal_words, fixed_values
from lakeidx.data.engines.functions.positions import NAMES, fold_positions
from lakeidx.data.engines.options import RETRACTABLE, FunctionSpec
from lakeidx.data.engines.runs import (
    ADD,
    OLDER,
    RETRACT,
    SET,
    SET_RETRACT,
    SKIP,
    Bools,
    Int8s,
    Int64s,
    Runs,
    one_chunk,
    take_positions,
    valid_rows,
)
from lakeidx.data.engines.scalar.base import ScalarFunction, cannot_retract
from lakeidx.data.engines.scalar.functions import make_scalar_function
from lakeidx.types import Root

_WITHOUT_RETRACT = np.array([SKIP, 1, 2, SKIP, SET, SET], np.int8)


def fold_column(spec: FunctionSpec, column: pa.ChunkedArray | pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Apply a column's function to its rows, run by run.

    column      of ``to_arrow(spec.type)``, n rows
    ops         int8[n] operation codes (`lakeidx.data.engines.runs`)
    returns     g values
    errors      InvalidInputError for a retract the function cannot do, values it cannot compare, a factor of 0
    """
    if spec.ignore_retract:
        ops = _WITHOUT_RETRACT[ops]
    elif spec.name not in RETRACTABLE and bool(np.any((ops == RETRACT) | (ops == SET_RETRACT))):
        raise cannot_retract(spec)
    array = one_chunk(column)
    if spec.name in NAMES:
        return take_positions(array, fold_positions(spec, array, runs, ops))
    if spec.name == "sum":
        return (_sum_decimals if spec.type.root is Root.DECIMAL else _sum_numbers)(spec, array, runs, ops)
    return _fold_objects(spec, array, runs, ops)


_LONG_DIGITS = 18
_LONGS = (-(2**63), 2**63 - 1)


def _sum_decimals(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Sum each run.

    ops   int8[n] operation codes
    """
    high, low = decimal_words(column)
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    digits = 10**spec.type.precision - 1
    # What a sum may be, and what the negative of a first value.
    limits = (*(_LONGS if spec.type.precision <= _LONG_DIGITS else (-digits, digits)), -digits, digits)
    high_limits = np.array([x >> 64 for x in limits], np.int64)
    low_limits = np.array([x & (2**64 - 1) for x in limits], np.uint64)
    out_high, out_low = np.zeros(runs.count, np.int64), np.zeros(runs.count, np.uint64)
    out_valid = np.zeros(runs.count, np.bool_)
    _sum_128(
        frozen(high), frozen(low), frozen(valid), frozen(runs.starts), runs.rows, frozen(ops), frozen(high_limits),
        frozen(low_limits), out_high, out_low, out_valid,
    )  # fmt: skip
    return array_of_decimals(out_high, out_low, out_valid, spec.type)


@kernel
def _sum_128(high, low, valid, starts, rows, ops, high_limits, low_limits, out_high, out_low, out_valid):  # type: ignore[no-untyped-def]
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else rows
        has = False
        hi = np.int64(0)
        lo = np.uint64(0)
        for i in range(starts[g], end):
            op = ops[i]
            if op == 0:
                continue
            if op >= 4:
                has = valid[i]
                hi = high[i]
                lo = low[i]
            if not valid[i] or op == 4:
                continue
            v_hi = high[i]
            v_lo = low[i]
            if op == 3 or op == 5:
                # Two's complement of the value; it is below 10^38, so its negative fits.
                v_lo = ~v_lo + np.uint64(1)
                v_hi = ~v_hi + (np.int64(1) if v_lo == 0 else np.int64(0))
            overflow = False
            least = 0
            if not has:
                hi = v_hi
                lo = v_lo
                least = 2 if op == 3 else 0
            else:
                s_lo = lo + v_lo
                s_hi = hi + v_hi + (np.int64(1) if s_lo < lo else np.int64(0))
                overflow = ((hi ^ s_hi) & (v_hi ^ s_hi)) < 0
                hi = s_hi
                lo = s_lo
            below = hi < high_limits[least] or (hi == high_limits[least] and lo < low_limits[least])
            above = hi > high_limits[least + 1] or (hi == high_limits[least + 1] and lo > low_limits[least + 1])
            has = not (overflow or below or above)
        out_high[g] = hi
        out_low[g] = lo
        out_valid[g] = has


def _sum_numbers(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Sum each run.

    ops   int8[n] operation codes
    """
    values = fixed_values(column, spec.type)
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    out = np.zeros(runs.count, values.dtype)
    out_valid = np.zeros(runs.count, np.bool_)
    _sum(frozen(values), frozen(valid), frozen(runs.starts), runs.rows, frozen(ops), out, out_valid)
    return array_of_values(out, out_valid, spec.type)


@kernel
def _sum(values, valid, starts, rows, ops, out, out_valid):  # type: ignore[no-untyped-def]
    """Accumulate in `out`, whose width does the wrapping and the rounding to 32 bits."""
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else rows
        has = False
        for i in range(starts[g], end):
            op = ops[i]
            if op == 0:
                continue
            if op >= 4:
                has = valid[i]
                out[g] = values[i]
            if not valid[i]:
                continue
            if op == 3 or op == 5:
                out[g] = out[g] - values[i] if has else -values[i]
            elif op < 3:
                out[g] = out[g] + values[i] if has else values[i]
            has = True
        out_valid[g] = has


# The kernels are written with the codes as numbers; keep them in step.
assert (SKIP, RETRACT, SET, SET_RETRACT) == (0, 3, 4, 5)


def _fold_objects(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Fold each run.

    ops      int8[n] operation codes
    cost     one `take` for keys with one operation, Python per row for the rest
    """
    if spec.name == "listagg" and not spec.distinct and bool(np.all((ops == ADD) | (ops == SKIP))):
        return _join(column, runs, ops == ADD, spec.delimiter)
    taken = ops != SKIP
    operations = np.add.reduceat(taken.astype(np.int64), runs.starts) if runs.count else np.empty(0, np.int64)
    simple = operations <= 1
    single = runs.last_true(taken)
    # A lone retract leaves null; a lone value of collect with distinct is made distinct.
    lone = np.where(single >= 0, ops[single], SET)
    simple &= (lone == SET) | (lone == OLDER) | ((lone == ADD) & (not (spec.name == "collect" and spec.distinct)))
    if simple.all():
        return take_positions(column, single)
    plain = take_positions(column, np.where(simple, single, -1))
    complex_runs = np.flatnonzero(~simple)
    computed = _run_by_run(spec, column, runs, ops, complex_runs)
    order = np.arange(runs.count, dtype=np.int64)
    order[complex_runs] = runs.count + np.arange(len(complex_runs))
    return pa.concat_arrays([plain, computed]).take(pa.array(order))


def _run_by_run(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s, chosen: Int64s) -> pa.Array:
    in_chosen = np.zeros(runs.count, np.bool_)
    in_chosen[chosen] = True
    rows = np.flatnonzero(runs.of_rows(in_chosen) & (ops != SKIP))
    values = arrow_to_internal(column.take(pa.array(rows)), spec.type)
    codes = ops[rows].tolist()
    begins = np.searchsorted(rows, runs.starts[chosen]).tolist()
    ends = np.searchsorted(rows, runs.lasts[chosen] + 1).tolist()
    function = make_scalar_function(spec)
    results = []
    for begin, end in zip(begins, ends, strict=True):
        acc = None
        for i in range(begin, end):
            acc = _apply_operation(function, codes[i], acc, values[i])
        results.append(acc)
    return internal_to_arrow(results, spec.type)


def _apply_operation(function: ScalarFunction, op: int, acc: object, value: object) -> object:
    """Apply one operation to an accumulated value, record at a time."""
    if op == ADD:
        return function.agg(acc, value)
    if op == OLDER:
        return function.agg_reversed(acc, value)
    if op == RETRACT:
        return function.retract(acc, value)
    if op == SET:
        return value
    if op == SET_RETRACT:
        return function.retract(value, value)
    return acc


def _join(column: pa.Array, runs: Runs, taken: Bools, delimiter: str) -> pa.Array:
    """Join the texts of each run that are not empty; null where there is none, '' where all are empty."""
    lengths = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    joined = taken & (lengths > 0)
    per_run = np.add.reduceat(joined.astype(np.int64), runs.starts) if runs.count else np.empty(0, np.int64)
    offsets = np.zeros(runs.count + 1, np.int64)
    np.cumsum(per_run, out=offsets[1:])
    texts = column.take(pa.array(np.flatnonzero(joined))).cast(pa.large_string())
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), texts)
    out = pc.binary_join(lists, pa.scalar(delimiter, pa.large_string()))
    any_value = runs.any_true(taken & (lengths >= 0))
    return one_chunk(pc.if_else(pa.array(any_value), out, pa.scalar(None, out.type)).cast(column.type))
