"""Merge engine partial-update: each column keeps its last value that is not null, or follows its sequence group.

source   org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction, release 1.4.2

Decisions per record and sequence group of a partial-update table: taken, older or removing.

source   org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction (updateWithSequenceGroup,
         retractWithSequenceGroup), release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.data.engines.aggregation import refuse_nulls
from lakeidx.data.engines.functions import fold_column
from lakeidx.data.engines.functions.positions import combined_keys, order_keys
from lakeidx.data.engines.options import RETRACTABLE, MergeOptions, SequenceGroup, partial_update_retract
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
    assemble,
    kinds_of,
    make_runs,
    one_chunk,
    sequences_of,
    take_positions,
    valid_rows,
    value_names,
)
from lakeidx.data.engines.scalar.base import cannot_retract
from lakeidx.data.row_kinds import DELETE, INSERT, is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema


class PartialUpdateEngine:
    """Columns in no sequence group keep their last non-null value; members of a group are replaced together."""

    def __init__(self, schema: TableSchema, options: MergeOptions) -> None:
        self._schema = schema
        self._options = options
        self._group_of: dict[str, int] = {}
        for i, group in enumerate(options.groups):
            for position in (*group.sequence, *group.members):
                self._group_of[schema.field_names[position]] = i

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`.

        errors   InvalidInputError for a -U or -D without a rule for it, a null in a NOT NULL column, a function that
                 cannot take a value back
        """
        present = value_names(kv)
        missing = [n for n in self.required_columns(present) if n not in present]
        if missing:
            raise InvalidInputError(f"merging columns {', '.join(present)} needs column {missing[0]!r}, too")
        runs = make_runs(kv, starts)
        kinds = kinds_of(kv)
        taken_back = is_retract(kinds)
        lone = runs.lengths == 1 if shortcut else np.zeros(runs.count, np.bool_)
        lone_row = runs.of_rows(lone) if shortcut else np.zeros(runs.rows, np.bool_)
        merged = _Merge(kv, runs, kinds, taken_back & ~lone_row, lone_row, lone)
        if self._options.groups:
            return self._merge_groups(merged)
        return self._merge_plain(merged)

    def required_columns(self, columns: list[str]) -> list[str]:
        """See `MergeEngine.required_columns`."""
        wanted = set(columns)
        needed: set[int] = set()
        for i, group in enumerate(self._options.groups):
            removes = bool(self._options.remove_on_sequence & set(group.sequence))
            if removes or any(self._group_of.get(c) == i for c in wanted):
                needed |= set(group.sequence)
        missing = [self._schema.field_names[p] for p in sorted(needed) if self._schema.field_names[p] not in wanted]
        return [*columns, *missing]

    def _merge_plain(self, m: _Merge) -> pa.Table:
        """Merge without sequence groups: the last non-null value since the row was last removed."""
        if not m.retracts.any():
            refuse_nulls(self._schema, m.kv, ~m.lone_row)
            columns = {n: take_positions(m.kv.column(n), self._last_value(m, n, None)) for n in value_names(m.kv)}
            result_kinds = np.full(m.runs.count, INSERT, np.int8)
            return self._finish(m, result_kinds, sequences_of(m.kv)[m.runs.lasts], columns)
        if not self._options.ignore_delete and not self._options.remove_on_delete:
            raise partial_update_retract()
        # A retract counts only if it begins a key (the row starts as its values) or removes the row.
        counts = ~m.retracts
        begins = m.runs.starts[m.retracts[m.runs.starts]]
        counts[begins] = True
        removing = np.zeros(m.runs.rows, np.bool_)
        if self._options.remove_on_delete:
            removing = m.retracts & (m.kinds == DELETE)
            counts |= removing
            counts &= _since_last(m.runs, removing)
        # Java meets every record in turn, so a null in one that is overwritten later is refused, too.
        refused = removing | ~(m.retracts | m.lone_row)
        refused[begins] = True
        refuse_nulls(self._schema, m.kv, refused)
        columns = {n: take_positions(m.kv.column(n), self._last_value(m, n, counts)) for n in value_names(m.kv)}
        removed = removing[m.runs.lasts] | ~m.runs.any_true(~m.retracts)
        result_kinds = np.where(removed, DELETE, INSERT).astype(np.int8)
        return self._finish(m, result_kinds, self._last_sequence(m), columns)

    def _last_value(self, m: _Merge, name: str, counts: Bools | None) -> Int64s:
        valid = valid_rows(m.kv.column(name))
        if valid is None:
            return m.runs.lasts if counts is None else m.runs.last_true(counts)
        return m.runs.last_true(valid if counts is None else valid & counts)

    def _last_sequence(self, m: _Merge) -> Int64s:
        """Return the sequence number of the last record that was not ignored; 0 when all were."""
        sequences = sequences_of(m.kv)
        if not self._options.ignore_delete:
            return sequences[m.runs.lasts]
        last = m.runs.last_true(~m.retracts)
        return np.where(last < 0, 0, sequences[last])

    def _finish(self, m: _Merge, kinds: Int8s, sequences: Int64s, columns: dict[str, pa.Array]) -> pa.Table:
        kinds = np.where(m.lone, m.kinds[m.runs.starts], kinds).astype(np.int8)
        return assemble(m.kv, sequences, kinds, columns)

    def _merge_groups(self, m: _Merge) -> pa.Table:
        decisions = _decide_groups(
            m.kv,
            self._schema,
            self._options.groups,
            m.runs,
            np.where(m.lone_row, INSERT, m.kinds).astype(np.int8),
            ignore_delete=self._options.ignore_delete,
            remove_on_sequence=self._options.remove_on_sequence,
        )
        starting = (decisions.per_row == BEGINS) | (decisions.per_row == REMOVES)
        # A removing delete at the head of a key also begins it.
        starting[m.runs.starts[m.retracts[m.runs.starts]]] = True
        refuse_nulls(self._schema, m.kv, starting)
        columns = {name: self._group_column(m, decisions, name) for name in value_names(m.kv)}
        removed = (decisions.per_row == REMOVES)[m.runs.lasts] | ~m.runs.any_true(~m.retracts)
        result_kinds = np.where(removed, DELETE, INSERT).astype(np.int8)
        return self._finish(m, result_kinds, self._last_sequence(m), columns)

    def _group_column(self, m: _Merge, decisions: GroupDecisions, name: str) -> pa.Array:
        position = self._schema.field_names.index(name)
        group_index = self._group_of.get(name)
        column = m.kv.column(name)
        if group_index is None:
            counts = ~m.retracts | (decisions.per_row != 0)
            if (decisions.per_row == REMOVES).any():
                counts &= _since_last(m.runs, decisions.per_row == REMOVES)
            return take_positions(column, self._last_value(m, name, counts))
        group = self._options.groups[group_index]
        function = self._options.functions.get(position)
        if function is not None and position not in group.sequence:
            ops = self._function_ops(m, decisions, group_index, position)
            return fold_column(function, column, m.runs, ops)
        return take_positions(column, self._replaced(m, decisions, group_index, group, position))

    def _replaced(
        self, m: _Merge, decisions: GroupDecisions, group_index: int, group: SequenceGroup, position: int
    ) -> Int64s:
        """Return the row of the last value put into a column without function; a retract puts null into a member."""
        taken = decisions.per_group[group_index] == TAKEN
        events = taken | (decisions.per_row != 0) | m.lone_row
        last = m.runs.last_true(events)
        if position in group.sequence:
            return last
        emptied = m.retracts & taken & (decisions.per_row != REMOVES)
        return np.where((last >= 0) & emptied[last], -1, last)

    def _function_ops(self, m: _Merge, decisions: GroupDecisions, group_index: int, position: int) -> Int8s:
        """Return the operations of a member with a function.

        errors   InvalidInputError when a removing delete reaches the column before it removes the row, and the function
                 cannot take values back
        """
        per_group = decisions.per_group[group_index]
        takes, begins = per_group != 0, decisions.per_row == BEGINS
        ops = np.where(per_group == TAKEN, ADD, np.where(per_group == OLDER_RECORD, OLDER, SKIP)).astype(np.int8)
        ops[takes & m.retracts] = RETRACT
        ops[begins] = np.where(takes[begins], SET_RETRACT, SET)
        removes = decisions.per_row == REMOVES
        function = self._options.functions[position]
        if function.name not in RETRACTABLE and not function.ignore_retract:
            reached = removes & takes & (decisions.removed_at > position)
            if bool(reached.any()):
                raise cannot_retract(function)
        ops[removes | m.lone_row] = SET
        return ops


class _Merge:
    """One call's table with what all columns need.

    retracts   bool[n]: -U and -D, except lone records that are returned as they are
    lone_row   bool[n]: rows of runs that are returned as they are; lone: bool[g]
    """

    def __init__(self, kv: pa.Table, runs: Runs, kinds: Int8s, retracts: Bools, lone_row: Bools, lone: Bools) -> None:
        self.kv = kv
        self.runs = runs
        self.kinds = kinds
        self.retracts = retracts
        self.lone_row = lone_row
        self.lone = lone


def _since_last(runs: Runs, marks: Bools) -> Bools:
    """Return bool[n]: rows at or after the last mark of their run (all rows of a run without marks)."""
    last = runs.last_true(marks)
    return np.arange(runs.rows) >= runs.of_rows(np.maximum(last, runs.starts))


#: What a record does to a group.
PASSED_OVER, TAKEN, OLDER_RECORD = 0, 1, 2
#: What a record does to the whole row.
NORMAL, BEGINS, REMOVES = 0, 1, 2
_NO_REMOVAL = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class GroupDecisions:
    """Effect of each record.

    per_group       int8[groups, n]: PASSED_OVER (its sequence columns are all null, or the row is removed), TAKEN (at or
                    above the row's sequence), OLDER_RECORD
    per_row         int8[n]: BEGINS = a key that begins with a retract (the row starts as that record), REMOVES = the whole
                    row becomes the delete's values
    removed_at      int32[n]: for REMOVES, the position of the column at which it happens; columns before it were still
                    worked on
    """

    per_group: Int8s
    per_row: Int8s
    removed_at: npt.NDArray[np.int32]


def _sequence_ranks(kv: pa.Table, schema: TableSchema, group: SequenceGroup) -> tuple[Int64s, Bools]:
    """Rank of each record in a group's order, and whether its sequence columns are all null.

    returns   (int64[n] of at least 0, equal for equal sequences, nulls lowest; bool[n])
    errors    InvalidInputError when a sequence column has no order
    """
    keys: list[tuple[Int64s, Bools | None]] = []
    empty = np.ones(kv.num_rows, np.bool_)
    for position in group.sequence:
        field = schema.fields[position]
        column = one_chunk(kv.column(field.name))
        key = order_keys(column, field.type)
        if key is None:
            raise InvalidInputError(f"column {field.name!r} of {field.type} cannot order a sequence group")
        valid = valid_rows(column)
        keys.append((key, valid))
        empty &= False if valid is None else ~valid
    return combined_keys(keys), empty


def _decide_groups(
    kv: pa.Table,
    schema: TableSchema,
    groups: Sequence[SequenceGroup],
    runs: Runs,
    kinds: Int8s,
    *,
    ignore_delete: bool,
    remove_on_sequence: frozenset[int],
) -> GroupDecisions:
    """Decide for every record and group.

    kv                   a group whose sequence columns are not all there is skipped
    remove_on_sequence   positions of sequence columns whose -D removes the row
    cost                 one pass; groups ordered by several columns, texts or wide decimals sort those columns first
    """
    ranks = np.zeros((len(groups), runs.rows), np.int64)
    empty = np.ones((len(groups), runs.rows), np.bool_)
    removing = np.full(len(groups), _NO_REMOVAL, np.int32)
    for i, group in enumerate(groups):
        if any(schema.field_names[p] not in kv.schema.names for p in group.sequence):
            continue
        ranks[i], empty[i] = _sequence_ranks(kv, schema, group)
        if remove_on_sequence & set(group.sequence):
            removing[i] = min(group.sequence)
    per_group = np.zeros((len(groups), runs.rows), np.int8)
    per_row = np.zeros(runs.rows, np.int8)
    removed_at = np.full(runs.rows, _NO_REMOVAL, np.int32)
    # Groups act in the order of their first sequence column, as far as removal goes.
    order = np.argsort(removing, kind="stable").astype(np.int64)
    _decide(
        frozen(ranks), frozen(empty), frozen(removing), frozen(order), frozen(kinds), frozen(runs.starts), runs.rows,
        ignore_delete, per_group, per_row, removed_at,
    )  # fmt: skip
    return GroupDecisions(per_group, per_row, removed_at)


@kernel
def _decide(ranks, empty, removing, order, kinds, starts, rows, ignore_delete, per_group, per_row, removed_at):  # type: ignore[no-untyped-def]  # noqa: C901 - a kernel is one loop
    none = np.int32(2147483647)
    groups = len(ranks)
    current = np.empty(groups, np.int64)
    for run in range(len(starts)):
        end = starts[run + 1] if run + 1 < len(starts) else rows
        for g in range(groups):
            current[g] = -1
        for i in range(starts[run], end):
            retract = kinds[i] & 1
            if retract and i == starts[run]:
                per_row[i] = 1  # BEGINS
                for g in range(groups):
                    current[g] = ranks[g, i]
            if retract and ignore_delete:
                continue
            removed = False
            if kinds[i] == 3:
                for k in range(groups):
                    g = order[k]
                    if removing[g] != none and not empty[g, i] and ranks[g, i] >= current[g]:
                        removed = True
                        per_row[i] = 2  # REMOVES
                        removed_at[i] = removing[g]
                        break
            if removed:
                for g in range(groups):
                    # Kept for columns that come before the removal: they were worked on first.
                    if not empty[g, i]:
                        per_group[g, i] = 1 if ranks[g, i] >= current[g] else 2
                    current[g] = ranks[g, i]
                continue
            for g in range(groups):
                if empty[g, i]:
                    continue
                if ranks[g, i] >= current[g]:
                    per_group[g, i] = 1
                    current[g] = ranks[g, i]
                else:
                    per_group[g, i] = 2
