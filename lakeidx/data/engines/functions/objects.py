"""Aggregate functions of texts, arrays, maps, nested tables and bitmaps, and products of decimals that are taken back.

Keys with one operation take their value from the column. The others run the record-at-a-time function over their own
rows only: Python once per row of a key that has several. A plain listagg is joined over whole columns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.engines.options import FunctionSpec
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
)
from lakeidx.data.engines.scalar.base import ScalarFunction
from lakeidx.data.engines.scalar.functions import make_scalar_function


def fold_objects(spec: FunctionSpec, column: pa.Array, runs: Runs, ops: Int8s) -> pa.Array:
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
