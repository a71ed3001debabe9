"""Merge engine aggregation: every column has its own function.

source   org.apache.paimon.mergetree.compact.aggregate.AggregateMergeFunction, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.engines.functions import fold_column
from lakeidx.data.engines.options import FunctionSpec, MergeOptions, null_in_not_null
from lakeidx.data.engines.runs import (
    ADD,
    RETRACT,
    SET,
    Bools,
    assemble,
    kinds_of,
    make_runs,
    sequences_of,
    valid_rows,
    value_names,
)
from lakeidx.data.row_kinds import DELETE, INSERT, is_retract
from lakeidx.format.schema.schema_file import TableSchema


class AggregationEngine:
    """Adds go through ``agg``, retracts through ``retract`` of each column's function."""

    def __init__(self, schema: TableSchema, options: MergeOptions) -> None:
        self._schema = schema
        self._remove_on_delete = options.remove_on_delete
        self._specs: dict[str, FunctionSpec] = {f.name: options.functions[i] for i, f in enumerate(schema.fields)}

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`."""
        runs = make_runs(kv, starts)
        kinds = kinds_of(kv)
        taken_back = is_retract(kinds)
        ops = np.where(taken_back, RETRACT, ADD).astype(np.int8)
        removed: Bools | None = None
        if self._remove_on_delete and bool((removed := kinds == DELETE).any()):
            # The row becomes the delete's row; what follows is aggregated onto it.
            ops[removed] = SET
        result_kinds = np.full(runs.count, INSERT, np.int8)
        if removed is not None:
            result_kinds[removed[runs.lasts]] = DELETE
        if shortcut:
            lone = runs.starts[runs.lengths == 1]
            ops[lone[taken_back[lone]]] = SET
            result_kinds[runs.lengths == 1] = kinds[lone]
            if removed is not None:
                removed[lone] = False
        if removed is not None:
            refuse_nulls(self._schema, kv, removed)
        columns = {}
        for name in value_names(kv):
            spec, column_ops = self._specs[name], ops
            if shortcut and spec.name == "collect" and spec.distinct:
                # The one function that changes a lone value it takes in.
                column_ops = ops.copy()
                column_ops[lone] = SET
            columns[name] = fold_column(spec, kv.column(name), runs, column_ops)
        return assemble(kv, sequences_of(kv)[runs.lasts], result_kinds, columns)

    def required_columns(self, columns: list[str]) -> list[str]:
        """See `MergeEngine.required_columns`."""
        return list(columns)


def refuse_nulls(schema: TableSchema, kv: pa.Table, rows: Bools) -> None:
    """Refuse nulls in NOT NULL columns of the rows.

    errors   InvalidInputError naming the first such column
    """
    for name in value_names(kv):
        if not schema.field(name).type.nullable:
            valid = valid_rows(kv.column(name))
            if valid is not None and bool(np.any(rows & ~valid)):
                raise null_in_not_null(name)
