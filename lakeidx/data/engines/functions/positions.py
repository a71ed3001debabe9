"""Aggregate functions whose result is one of the input values: they return the row to take it from.

last_value, last_non_null_value, first_value, first_non_null_value, primary-key, max, min, bool_and, bool_or.

source   org.apache.paimon.mergetree.compact.aggregate.Field{Last,First}*Agg, FieldPrimaryKeyAgg, Field{Max,Min}Agg,
         FieldBool{And,Or}Agg, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.engines.functions.order_keys import order_keys
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import ADD, OLDER, RETRACT, SET, SET_RETRACT, Bools, Int8s, Int64s, Runs, valid_rows
from lakeidx.data.engines.scalar.base import not_comparable
from lakeidx.types import Root

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


def fold_positions(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s, *, only_adds: bool) -> Int64s:
    """Find the row each run's result comes from, -1 for null.

    ops         int8[n] operation codes; no RETRACT for functions that cannot retract
    only_adds   every operation is ADD
    returns     int64[g]; the row may hold null itself
    errors      InvalidInputError when max or min would have to compare values without order
    """
    mode = _MODES[spec.name]
    valid = valid_rows(column)
    if only_adds and mode not in (MAX, MIN):
        return _plain_positions(mode, valid, runs)
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


def _plain_positions(mode: int, valid: Bools | None, runs: Runs) -> Int64s:
    if mode in (PRIMARY_KEY, LAST) or (mode == LAST_NON_NULL and valid is None):
        return runs.lasts
    if mode == FIRST or valid is None:
        return runs.starts
    return runs.last_true(valid) if mode == LAST_NON_NULL else runs.first_true(valid)


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
