"""Merge engines one record at a time, on internal values: the plain twin of the vectorised engines.

For tests and for reading: each engine is the state machine of its Java class, column by column in schema order.

source   org.apache.paimon.mergetree.compact.{DeduplicateMergeFunction, FirstRowMergeFunction,
         PartialUpdateMergeFunction, ReducerMergeFunctionWrapper}, .aggregate.AggregateMergeFunction, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakeidx.data.engines.options import (
    Engine,
    MergeOptions,
    SequenceGroup,
    first_row_retract,
    merge_options,
    null_in_not_null,
    partial_update_retract,
)
from lakeidx.data.engines.scalar.base import ScalarFunction
from lakeidx.data.row_kinds import DELETE, INSERT, is_retract
from lakeidx.format.schema.schema_file import TableSchema
from tests.kit.reference_functions import make_reference_function
from tests.kit.scalar_twins import compare_values


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a primary-key table: row kind code, sequence number, internal values in schema order."""

    kind: int
    sequence: int
    values: tuple[Any, ...]


class ReferenceEngine(Protocol):
    """Merges the records of one key."""

    def merge(self, records: Sequence[Record]) -> Record | None:
        """Merge all records of a key, in merge order; None when all were ignored.

        errors   InvalidInputError as the vectorised engine
        """


def make_reference_engine(schema: TableSchema) -> ReferenceEngine:
    """Make the plain form of a table's merge engine.

    errors   InvalidInputError naming column and option
    """
    options = merge_options(schema)
    if options.engine is Engine.DEDUPLICATE:
        return _Deduplicate(options)
    if options.engine is Engine.FIRST_ROW:
        return _FirstRow(options)
    if options.engine is Engine.PARTIAL_UPDATE:
        return _PartialUpdate(schema, options)
    return _Aggregate(schema, options)


def merge_reduced(engine: ReferenceEngine, records: Sequence[Record]) -> Record | None:
    """Merge with the shortcut that reads and plain compactions take: a lone record is returned as it is."""
    return records[0] if len(records) == 1 else engine.merge(records)


class _Deduplicate:
    def __init__(self, options: MergeOptions) -> None:
        self._options = options

    def merge(self, records: Sequence[Record]) -> Record | None:
        latest = None
        for r in records:
            if not (self._options.ignore_delete and is_retract(r.kind)):
                latest = r
        return latest


class _FirstRow:
    def __init__(self, options: MergeOptions) -> None:
        self._options = options

    def merge(self, records: Sequence[Record]) -> Record | None:
        first = None
        for r in records:
            if is_retract(r.kind):
                if not self._options.ignore_delete:
                    raise first_row_retract()
            elif first is None:
                first = r
        return first


class _Aggregate:
    def __init__(self, schema: TableSchema, options: MergeOptions) -> None:
        self._schema = schema
        self._options = options

    def merge(self, records: Sequence[Record]) -> Record | None:
        functions = [make_reference_function(self._options.functions[i]) for i in range(len(self._schema.fields))]
        row: list[Any] = [None] * len(functions)
        removed = False
        for r in records:
            removed = self._options.remove_on_delete and r.kind == DELETE
            if removed:
                row = _init_row(self._schema, r)
                continue
            for i, f in enumerate(functions):
                row[i] = f.retract(row[i], r.values[i]) if is_retract(r.kind) else f.agg(row[i], r.values[i])
        return Record(DELETE if removed else INSERT, records[-1].sequence, tuple(row))


def _init_row(schema: TableSchema, record: Record) -> list[Any]:
    for field, value in zip(schema.fields, record.values, strict=True):
        if value is None and not field.type.nullable:
            raise null_in_not_null(field.name)
    return list(record.values)


class _PartialUpdate:
    def __init__(self, schema: TableSchema, options: MergeOptions) -> None:
        self._schema = schema
        self._options = options
        self._group_of: dict[int, SequenceGroup] = {}
        for group in options.groups:
            for position in (*group.sequence, *group.members):
                self._group_of[position] = group

    def merge(self, records: Sequence[Record]) -> Record | None:
        self._row: list[Any] = [None] * len(self._schema.fields)
        self._removed = False
        self._functions: dict[int, ScalarFunction] = {
            i: make_reference_function(spec) for i, spec in self._options.functions.items()
        }
        sequence, inserted, filled = 0, False, False
        for r in records:
            self._removed = False
            if is_retract(r.kind):
                if not filled:
                    self._row = _init_row(self._schema, r)
                    filled = True
                if self._options.ignore_delete:
                    continue
                sequence = r.sequence
                self._retract(r)
                continue
            sequence = r.sequence
            if self._options.groups:
                self._update_groups(r)
            else:
                self._update(r)
            inserted = filled = True
        return Record(DELETE if self._removed or not inserted else INSERT, sequence, tuple(self._row))

    def _retract(self, r: Record) -> None:
        if self._options.groups:
            self._retract_groups(r)
        elif self._options.remove_on_delete:
            if r.kind == DELETE:
                self._removed = True
                self._row = _init_row(self._schema, r)
        else:
            raise partial_update_retract()

    def _update(self, r: Record) -> None:
        for i, (field, value) in enumerate(zip(self._schema.fields, r.values, strict=True)):
            if value is not None:
                self._row[i] = value
            elif not field.type.nullable:
                raise null_in_not_null(field.name)

    def _update_groups(self, r: Record) -> None:
        for i, value in enumerate(r.values):
            group, function = self._group_of.get(i), self._functions.get(i)
            if group is None:
                if function is not None:
                    self._row[i] = function.agg(self._row[i], value)
                elif value is not None:
                    self._row[i] = value
            elif self._is_empty(group, r):
                continue
            elif self._is_newer(group, r):
                if i in group.sequence:
                    self._take_sequence(group, r)
                else:
                    self._row[i] = value if function is None else function.agg(self._row[i], value)
            elif function is not None:
                self._row[i] = function.agg_reversed(self._row[i], value)

    def _retract_groups(self, r: Record) -> None:
        for i, value in enumerate(r.values):
            group, function = self._group_of.get(i), self._functions.get(i)
            if group is None or self._is_empty(group, r):
                continue
            if self._is_newer(group, r):
                if i in group.sequence:
                    if r.kind == DELETE and self._options.remove_on_sequence & set(group.sequence):
                        self._removed = True
                        self._row = _init_row(self._schema, r)
                        return
                    self._take_sequence(group, r)
                else:
                    self._row[i] = None if function is None else function.retract(self._row[i], value)
            elif function is not None:
                self._row[i] = function.retract(self._row[i], value)

    def _is_empty(self, group: SequenceGroup, r: Record) -> bool:
        return all(r.values[s] is None for s in group.sequence)

    def _take_sequence(self, group: SequenceGroup, r: Record) -> None:
        for s in group.sequence:
            self._row[s] = r.values[s]

    def _is_newer(self, group: SequenceGroup, r: Record) -> bool:
        """Return True when the record is at or above the row in the group's order (null first)."""
        for s in group.sequence:
            t = self._schema.fields[s].type
            new, old = r.values[s], self._row[s]
            if order := compare_values(new, old, t):
                return order > 0
        return True
