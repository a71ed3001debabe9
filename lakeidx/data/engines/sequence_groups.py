"""Decisions per record and sequence group of a partial-update table: taken, older or removing.

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
from lakeidx.data.engines.functions.positions import combined_keys, order_keys
from lakeidx.data.engines.options import SequenceGroup
from lakeidx.data.engines.runs import Bools, Int8s, Int64s, Runs, one_chunk, valid_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema

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


def decide_groups(
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
