"""sum of decimals over whole columns, in 64 or 128 bits.

Up to 18 digits Java adds longs and does not look at the precision again (a sum may have more digits than declared); only
a long overflow continues in big decimals, where more digits than the precision give null. Above 18 digits every step does.

source   org.apache.paimon.mergetree.compact.aggregate.FieldSumAgg, org.apache.paimon.utils.DecimalUtils,
         org.apache.paimon.data.Decimal#fromBigDecimal, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.engines.functions.fixed_width import array_of_decimals, decimal_words
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import RETRACT, SET, SET_RETRACT, SKIP, Int8s, Runs, valid_rows

_LONG_DIGITS = 18


def sum_decimals(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
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
