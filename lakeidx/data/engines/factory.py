"""The merge engine of a table.

Merge engine deduplicate: the last record of a key wins, kind and all.

source   org.apache.paimon.mergetree.compact.DeduplicateMergeFunction, release 1.4.2

Merge engine first-row: the first record of a key wins.

source   org.apache.paimon.mergetree.compact.FirstRowMergeFunction, release 1.4.2
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.engines.options import Engine, first_row_retract, kept_merge_options, merge_options
from lakeidx.data.engines.runs import kinds_of, make_runs
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema


class MergeEngine(Protocol):
    """Merges the rows of each key of a key-value table into at most one."""

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """Merge runs of rows.

        kv         key-value table in merge order: rows of a key one after another, ordered by the sequence fields, then
                   the sequence number, then retracts before adds. Columns may be left out, except those that
                   `required_columns` names
        starts     int64[g]: the first row of each key's run
        shortcut   return a lone record as it is (kind included), as reads and plain compactions do; without it a lone
                   record passes through the engine, as in lookup compactions
        returns    at most one row per run, in run order, with the columns of `kv`; rows of kind -U and -D are still
                   among them
        errors     InvalidInputError naming column and option for what the engine cannot merge
        """

    def required_columns(self, columns: list[str]) -> list[str]:
        """Return the columns that merging needs besides the system columns for correct values of `columns`.

        returns   `columns` first, then what is missing, in schema order
        """
        return list(columns)


class DeduplicateEngine(MergeEngine):
    """The last record, or the last that is not ignored.

    ignore_delete   records of kind -U and -D are skipped
    """

    def __init__(self, *, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`."""
        runs = make_runs(kv, starts)
        if not self._ignore_delete:
            return kv if runs.count == runs.rows else kv.take(pa.array(runs.lasts))
        ignored = is_retract(kinds_of(kv))
        if not ignored.any():
            return kv.take(pa.array(runs.lasts))
        chosen = runs.last_true(~ignored)
        if shortcut:
            chosen = np.where(runs.lengths == 1, runs.starts, chosen)
        return kv.take(pa.array(chosen[chosen >= 0]))


class FirstRowEngine(MergeEngine):
    """The first record that adds.

    ignore_delete   drop records of kind -U and -D instead of refusing them
    """

    def __init__(self, *, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`.

        errors   InvalidInputError for a -U or -D that is not ignored
        """
        runs = make_runs(kv, starts)
        dropped = is_retract(kinds_of(kv))
        if not dropped.any():
            return kv if runs.count == runs.rows else kv.take(pa.array(runs.starts))
        lone = runs.lengths == 1 if shortcut else np.zeros(runs.count, np.bool_)
        if not self._ignore_delete and bool(np.any(dropped & ~runs.of_rows(lone))):
            raise first_row_retract()
        chosen = np.where(lone, runs.starts, runs.first_true(~dropped))
        return kv.take(pa.array(chosen[chosen >= 0]))


def make_engine(schema: TableSchema) -> MergeEngine:
    """Make the merge engine that a primary-key table's options request.

    errors   InvalidInputError naming column and option; UnsupportedError for a function lakeidx does not have
    """
    table = schema.table_options
    if schema.primary_keys and table.merge_engine == Engine.DEDUPLICATE:
        return DeduplicateEngine(ignore_delete=table.ignore_delete)
    if schema.primary_keys and table.merge_engine == Engine.FIRST_ROW:
        return FirstRowEngine(ignore_delete=table.ignore_delete)
    options = kept_merge_options(schema)
    # With these two come all functions of columns: few tables have them.
    if options.engine is Engine.PARTIAL_UPDATE:
        from lakeidx.data.engines.partial_update import PartialUpdateEngine

        return PartialUpdateEngine(schema, options)
    from lakeidx.data.engines.aggregation import AggregationEngine

    return AggregationEngine(schema, options)


def validate_merge_options(schema: TableSchema) -> None:
    """Refuse merge options that cannot work; for use when a table is made or altered.

    Stricter than `make_engine` in one thing: max and min over a type without order are refused at once, not when two
    values meet.

    errors   InvalidInputError naming column and option; UnsupportedError for a function lakeidx does not have
    """
    from lakeidx.data.engines.scalar.base import is_ordered

    options = merge_options(schema)
    for spec in options.functions.values():
        if spec.name in ("max", "min") and not is_ordered(spec.type):
            raise InvalidInputError(
                f"option 'fields.{spec.column}.aggregate-function': {spec.name} cannot compare values of {spec.type}"
            )
    for group in options.groups:
        for position in group.sequence:
            field = schema.fields[position]
            if not is_ordered(field.type) and field.type.root.value != "BOOLEAN":
                raise InvalidInputError(f"column {field.name!r} of {field.type} cannot order a sequence group")
