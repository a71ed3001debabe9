"""One column's aggregate function over all runs of a key-value table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.data.engines.functions.decimal_products import multiply_decimals
from lakeidx.data.engines.functions.decimals import sum_decimals
from lakeidx.data.engines.functions.numeric import fold_numbers
from lakeidx.data.engines.functions.objects import fold_objects
from lakeidx.data.engines.functions.positions import NAMES, fold_positions
from lakeidx.data.engines.options import RETRACTABLE, FunctionSpec
from lakeidx.data.engines.runs import (
    ADD,
    RETRACT,
    SET,
    SET_RETRACT,
    SKIP,
    Int8s,
    Runs,
    one_array,
    take_positions,
)
from lakeidx.data.engines.scalar.base import cannot_retract
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
    array = one_array(column)
    if spec.name in NAMES:
        return take_positions(array, fold_positions(spec, array, runs, ops, only_adds=only_adds))
    if spec.name in ("sum", "product") and spec.type.root is not Root.DECIMAL:
        return fold_numbers(spec, array, runs, ops)
    if spec.name == "sum":
        return sum_decimals(spec, array, runs, ops)
    if spec.name == "product" and not bool(np.any((ops == RETRACT) | (ops == SET_RETRACT))):
        return multiply_decimals(spec, array, runs, ops)
    return fold_objects(spec, array, runs, ops)


assert ADD == 1
