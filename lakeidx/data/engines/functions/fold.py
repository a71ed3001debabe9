"""One column's aggregate function over all runs of a key-value table.

sum of decimals over whole columns, in 64 or 128 bits.

Up to 18 digits Java adds longs and does not look at the precision again (a sum may have more digits than declared); only
a long overflow continues in big decimals, where more digits than the precision give null. Above 18 digits every step does.

source   org.apache.paimon.mergetree.compact.aggregate.FieldSumAgg, org.apache.paimon.utils.DecimalUtils,
         org.apache.paimon.data.Decimal#fromBigDecimal, release 1.4.2

product of decimals over whole columns: 128 x 128 bits, rounded half up to the scale, null beyond the precision.

Only for rows that are taken in. Taking a factor back needs to know whether a quotient ever ends; keys with such rows go
through the record-at-a-time function.

source   org.apache.paimon.mergetree.compact.aggregate.FieldProductAgg, org.apache.paimon.data.Decimal#fromBigDecimal,
         release 1.4.2

sum and product of integers and floating point numbers, in Java's arithmetic.

Integers wrap around at their own width, FLOAT is summed in 32 bits, one value after another (no pairwise summing).

source   org.apache.paimon.mergetree.compact.aggregate.{FieldSumAgg, FieldProductAgg}, release 1.4.2

Aggregate functions of texts, arrays, maps, nested tables and bitmaps, and products of decimals that are taken back.

Keys with one operation take their value from the column. The others run the record-at-a-time function over their own
rows only: Python once per row of a key that has several. A plain listagg is joined over whole columns.
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
from lakeidx.data.engines.scalar.base import ScalarFunction, cannot_retract, divided_by_zero
from lakeidx.data.engines.scalar.functions import make_scalar_function
from lakeidx.types import Root

_WITHOUT_RETRACT = np.array([SKIP, 1, 2, SKIP, SET, SET], np.int8)


def fold_column(
    spec: FunctionSpec, column: pa.ChunkedArray | pa.Array, runs: Runs, ops: Int8s, *, only_adds: bool
) -> pa.Array:
    """Apply a column's function to its rows, run by run.

    column      of ``to_arrow(spec.type)``, n rows
    ops         int8[n] operation codes (`lakeidx.data.engines.runs`)
    only_adds   every operation is ADD
    returns     g values
    errors      InvalidInputError for a retract the function cannot do, values it cannot compare, a factor of 0
    """
    if not only_adds:
        if spec.ignore_retract:
            ops = _WITHOUT_RETRACT[ops]
        elif spec.name not in RETRACTABLE and bool(np.any((ops == RETRACT) | (ops == SET_RETRACT))):
            raise cannot_retract(spec)
    array = one_chunk(column)
    if spec.name in NAMES:
        return take_positions(array, fold_positions(spec, array, runs, ops, only_adds=only_adds))
    if spec.name in ("sum", "product") and spec.type.root is not Root.DECIMAL:
        return _fold_numbers(spec, array, runs, ops)
    if spec.name == "sum":
        return _sum_decimals(spec, array, runs, ops)
    if spec.name == "product" and not bool(np.any((ops == RETRACT) | (ops == SET_RETRACT))):
        return _multiply_decimals(spec, array, runs, ops)
    return _fold_objects(spec, array, runs, ops)


assert ADD == 1


_LONG_DIGITS = 18


def _sum_decimals(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Sum each run.

    ops   int8[n] operation codes
    """
    high, low = decimal_words(column)
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    out_high, out_low = np.zeros(runs.count, np.int64), np.zeros(runs.count, np.uint64)
    out_valid = np.zeros(runs.count, np.bool_)
    where = (frozen(valid), frozen(runs.starts), runs.rows, frozen(ops))
    bound = 10**spec.type.precision
    if spec.type.precision <= _LONG_DIGITS:
        out_long = out_low.view(np.int64)
        _sum_longs(frozen(low.view(np.int64)), *where, np.int64(bound), out_long, out_valid)
        out_high = np.where(out_long < 0, -1, 0)
    else:
        bound_high, bound_low = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
        _sum_128(frozen(high), frozen(low), *where, bound_high, bound_low, out_high, out_low, out_valid)
    return array_of_decimals(out_high, out_low, out_valid, spec.type)


@kernel
def _sum_longs(values, valid, starts, rows, ops, bound, out, out_valid):  # type: ignore[no-untyped-def]
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else rows
        has = False
        acc = np.int64(0)
        for i in range(starts[g], end):
            op = ops[i]
            if op == 0:
                continue
            if op >= 4:
                has = valid[i]
                acc = values[i]
            if not valid[i] or op == 4:
                continue
            v = values[i]
            if not has:
                has = True
                acc = v
                if op == 3:
                    acc = -v
                    has = -bound < v < bound
            elif op == 3 or op == 5:
                result = acc - v
                has = not ((acc ^ v) & (acc ^ result)) < 0
                acc = result
            else:
                result = acc + v
                has = not ((acc ^ result) & (v ^ result)) < 0
                acc = result
        out[g] = acc
        out_valid[g] = has


@kernel
def _sum_128(high, low, valid, starts, rows, ops, bound_high, bound_low, out_high, out_low, out_valid):  # type: ignore[no-untyped-def]
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
            if not has:
                hi = v_hi
                lo = v_lo
                has = True
                overflow = False
            else:
                s_lo = lo + v_lo
                s_hi = hi + v_hi + (np.int64(1) if s_lo < lo else np.int64(0))
                overflow = ((hi ^ s_hi) & (v_hi ^ s_hi)) < 0
                hi = s_hi
                lo = s_lo
            m_hi = hi
            m_lo = lo
            if m_hi < 0:
                m_lo = ~m_lo + np.uint64(1)
                m_hi = ~m_hi + (np.int64(1) if m_lo == 0 else np.int64(0))
            # The magnitude must stay below 10^precision.
            if overflow or m_hi > bound_high or (m_hi == bound_high and m_lo >= bound_low):
                has = False
        out_high[g] = hi
        out_low[g] = lo
        out_valid[g] = has


# The kernels are written with the codes as numbers; keep them in step.
assert (SKIP, RETRACT, SET, SET_RETRACT) == (0, 3, 4, 5)


def _multiply_decimals(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Multiply each run.

    ops   int8[n] operation codes without RETRACT and SET_RETRACT
    """
    high, low = decimal_words(column)
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    out_high, out_low = np.zeros(runs.count, np.int64), np.zeros(runs.count, np.uint64)
    out_valid = np.zeros(runs.count, np.bool_)
    half = _limbs(10**spec.type.scale // 2)
    bound = _limbs(10**spec.type.precision)
    _multiply(
        frozen(high), frozen(low), frozen(valid), frozen(runs.starts), runs.rows, frozen(ops), spec.type.scale,
        frozen(half), frozen(bound), out_high, out_low, out_valid,
    )  # fmt: skip
    return array_of_decimals(out_high, out_low, out_valid, spec.type)


def _limbs(value: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Split a non-negative integer into 32-bit digits, lowest first."""
    return np.array([value >> (32 * i) & 0xFFFFFFFF for i in range(8)], np.uint64)


@kernel
def _to_limbs(high, low, out):  # type: ignore[no-untyped-def]
    """Return the magnitude of a 128-bit integer as four 32-bit digits; True when it is negative."""
    negative = high < 0
    h = np.uint64(high)
    lo = low
    if negative:
        lo = ~lo + np.uint64(1)
        h = ~h + (np.uint64(1) if lo == 0 else np.uint64(0))
    mask = np.uint64(0xFFFFFFFF)
    out[0] = lo & mask
    out[1] = lo >> np.uint64(32)
    out[2] = h & mask
    out[3] = h >> np.uint64(32)
    return negative


@kernel
def _scale_down(product, scale, half):  # type: ignore[no-untyped-def]
    """Add half a unit and divide by 10^scale, nine digits at a time."""
    mask = np.uint64(0xFFFFFFFF)
    carry = np.uint64(0)
    for i in range(8):
        s = product[i] + half[i] + carry
        product[i] = s & mask
        carry = s >> np.uint64(32)
    left = scale
    while left > 0:
        digits = min(left, 9)
        divisor = np.uint64(1)
        for _ in range(digits):
            divisor *= np.uint64(10)
        rest = np.uint64(0)
        for i in range(7, -1, -1):
            part = (rest << np.uint64(32)) | product[i]
            product[i] = part // divisor
            rest = part % divisor
        left -= digits


@kernel
def _below(product, bound):  # type: ignore[no-untyped-def]
    for i in range(7, -1, -1):
        if product[i] != bound[i]:
            return product[i] < bound[i]
    return False


@kernel
def _multiply(high, low, valid, starts, rows, ops, scale, half, bound, out_high, out_low, out_valid):  # type: ignore[no-untyped-def]
    a = np.empty(4, np.uint64)
    b = np.empty(4, np.uint64)
    product = np.empty(8, np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else rows
        has = False
        hi = np.int64(0)
        lo = np.uint64(0)
        for i in range(starts[g], end):
            op = ops[i]
            if op == 0:
                continue
            if op == 4 or not has:
                if op == 4 or valid[i]:
                    has = valid[i]
                    hi = high[i]
                    lo = low[i]
                continue
            if not valid[i]:
                continue
            negative = _to_limbs(hi, lo, a) != _to_limbs(high[i], low[i], b)
            product[:] = 0
            for x in range(4):
                carry = np.uint64(0)
                for y in range(4):
                    s = a[x] * b[y] + product[x + y] + carry
                    product[x + y] = s & mask
                    carry = s >> np.uint64(32)
                product[x + 4] = carry
            if scale > 0:
                _scale_down(product, scale, half)
            has = _below(product, bound)
            lo = product[0] | (product[1] << np.uint64(32))
            h = product[2] | (product[3] << np.uint64(32))
            if negative:
                lo = ~lo + np.uint64(1)
                h = ~h + (np.uint64(1) if lo == 0 else np.uint64(0))
            hi = np.int64(h)
        out_high[g] = hi
        out_low[g] = lo
        out_valid[g] = has


# The kernel is written with the codes as numbers; keep them in step.
assert (SKIP, RETRACT, SET) == (0, 3, 4)


def _fold_numbers(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
    """Sum or multiply each run.

    ops      int8[n] operation codes
    errors   InvalidInputError when an integer factor of 0 would have to be taken back
    """
    values = fixed_values(column, spec.type)
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(len(column), np.bool_)
    out = np.zeros(runs.count, values.dtype)
    out_valid = np.zeros(runs.count, np.bool_)
    args = (frozen(values), frozen(valid), frozen(runs.starts), runs.rows, frozen(ops), out, out_valid)
    if spec.name == "sum":
        _sum(*args)
    elif spec.type.root in (Root.FLOAT, Root.DOUBLE):
        with np.errstate(all="ignore"):
            _product_of_floats(*args)
    elif not _product_of_integers(*args):
        raise divided_by_zero(spec)
    return array_of_values(out, out_valid, spec.type)


# The accumulated value lives in `out`, whose width does the wrapping and the rounding to 32 bits.


@kernel
def _sum(values, valid, starts, rows, ops, out, out_valid):  # type: ignore[no-untyped-def]
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


@kernel
def _product_of_floats(values, valid, starts, rows, ops, out, out_valid):  # type: ignore[no-untyped-def]
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
                if has:
                    out[g] = np.divide(out[g], values[i])
            elif op < 3:
                out[g] = out[g] * values[i] if has else values[i]
                has = True
        out_valid[g] = has


@kernel
def _product_of_integers(values, valid, starts, rows, ops, out, out_valid):  # type: ignore[no-untyped-def]
    """Return False when a factor of 0 was to be taken back."""
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
                if has:
                    a = np.int64(out[g])
                    b = np.int64(values[i])
                    if b == 0:
                        return False
                    if b == -1:
                        # The smallest integer has no negative: it wraps, and the processor's division would trap.
                        out[g] = -a
                    else:
                        quotient = a // b
                        if quotient < 0 and quotient * b != a:
                            quotient += 1
                        out[g] = quotient
            elif op < 3:
                out[g] = out[g] * values[i] if has else values[i]
                has = True
        out_valid[g] = has
    return True


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
        function.reset()
        acc = None
        for i in range(begin, end):
            acc = apply_operation(function, codes[i], acc, values[i])
        results.append(acc)
    return internal_to_arrow(results, spec.type)


def apply_operation(function: ScalarFunction, op: int, acc: object, value: object) -> object:
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
