"""product of decimals over whole columns: 128 x 128 bits, rounded half up to the scale, null beyond the precision.

Only for rows that are taken in. Taking a factor back needs to know whether a quotient ever ends; keys with such rows go
through the record-at-a-time function.

source   org.apache.paimon.mergetree.compact.aggregate.FieldProductAgg, org.apache.paimon.data.Decimal#fromBigDecimal,
         release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.engines.functions.fixed_width import array_of_decimals, decimal_words
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import RETRACT, SET, SKIP, Int8s, Runs, valid_rows


def multiply_decimals(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
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
