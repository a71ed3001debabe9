"""sum and product of integers and floating point numbers, in Java's arithmetic.

Integers wrap around at their own width, FLOAT is summed in 32 bits, one value after another (no pairwise summing).

source   org.apache.paimon.mergetree.compact.aggregate.{FieldSumAgg, FieldProductAgg}, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.engines.functions.fixed_width import array_of_values, fixed_values
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import RETRACT, SET, SET_RETRACT, SKIP, Int8s, Runs, valid_rows
from lakeidx.data.engines.scalar.base import divided_by_zero
from lakeidx.types import Root


def fold_numbers(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
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
