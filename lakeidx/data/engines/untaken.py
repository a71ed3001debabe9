"""Rows that must not be written, since merging them fails: retracts that a merge engine with its options does not take.

source   org.apache.paimon.mergetree.compact.{FirstRowMergeFunction, PartialUpdateMergeFunction}, org.apache.paimon.mergetree.
         compact.aggregate.{AggregateMergeFunction, FieldAggregator, FieldProductAgg}, org.apache.paimon.append.AppendOnlyWriter,
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeidx.data.engines.options import (
    RETRACTABLE,
    Engine,
    FunctionSpec,
    MergeOptions,
    first_row_retract,
    kept_merge_options,
    partial_update_retract,
)
from lakeidx.data.engines.scalar.base import cannot_retract, divided_by_zero
from lakeidx.data.row_kinds import DELETE, UPDATE_BEFORE
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import Root

_BOTH = (UPDATE_BEFORE, DELETE)


@dataclass(frozen=True, slots=True)
class UntakenRows:
    """Rows of some kinds, and why merging does not take them.

    with_any   only rows that have a value in one of these columns
    zero       only rows with 0 in this column
    """

    kinds: tuple[int, ...]
    why: str
    with_any: tuple[str, ...] = ()
    zero: str | None = None


def untaken_rows(schema: TableSchema) -> tuple[UntakenRows, ...]:
    """Return the rows that merging does not take; those that options of the table drop before they are written are not among
    them.
    """
    options = schema.table_options
    if not schema.primary_keys:
        return (UntakenRows(_BOTH, "an append table has no keys to take rows away by"),)
    if options.ignore_delete:
        return ()
    found = schema.once("untaken_rows", lambda: tuple(_untaken(schema, kept_merge_options(schema))))
    if not options.ignore_update_before:
        return found
    return tuple(UntakenRows((DELETE,), r.why, r.with_any, r.zero) for r in found if DELETE in r.kinds)


def _untaken(schema: TableSchema, merge: MergeOptions) -> Iterator[UntakenRows]:
    if merge.engine is Engine.FIRST_ROW:
        yield UntakenRows(_BOTH, first_row_retract().message)
    elif merge.engine is Engine.AGGREGATION:
        # With the option a -D removes the row, and no function has to take its values back.
        yield from _by_functions(merge.functions.values(), (UPDATE_BEFORE,) if merge.remove_on_delete else _BOTH)
    elif merge.engine is Engine.PARTIAL_UPDATE and merge.groups:
        for group in merge.groups:
            members = [merge.functions[p] for p in group.members if p in merge.functions]
            yield from _by_functions(members, _BOTH, tuple(schema.field_names[p] for p in group.sequence))
    elif merge.engine is Engine.PARTIAL_UPDATE and not merge.remove_on_delete:
        yield UntakenRows(_BOTH, partial_update_retract().message)


def _by_functions(
    functions: Iterable[FunctionSpec], kinds: tuple[int, ...], with_any: tuple[str, ...] = ()
) -> Iterator[UntakenRows]:
    for function in functions:
        if function.ignore_retract:
            continue
        if function.name not in RETRACTABLE:
            yield UntakenRows(kinds, cannot_retract(function).message, with_any)
        elif function.name == "product" and function.type.root not in (Root.FLOAT, Root.DOUBLE):
            yield UntakenRows(kinds, divided_by_zero(function).message, with_any, zero=function.column)
