"""Rules for rows that take a row away (-D), or its value before an update (-U).

========  ======================================================================================================
`action`  rows of the kind
========  ======================================================================================================
apply     are written where the table's merge engine and options take them, and rejected where they do not: one
          of them in the table would make its key unreadable, for Java too (the default)
reject    are rejected
ignore    are left out, and counted
remove    remove the row of their key; the table must have the option that says so, where its engine needs one
========  ======================================================================================================

A single word speaks of both kinds (``remove`` of -D alone: what -U does then is up to the engine), pairs of one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.data.row_kinds import DELETE, SHORT_NAMES, UPDATE_BEFORE, is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND

if TYPE_CHECKING:
    from lakeidx.data.engines.untaken import UntakenRows

#: A word for both kinds, or one for each.
OnDelete: TypeAlias = str | Mapping[str, str]
ON_DELETE_DEFAULT = "apply"
_ACTIONS = ("apply", "reject", "ignore", "remove")
_KINDS = {"-U": UPDATE_BEFORE, "-D": DELETE}
#: What lets a -D remove its row, by merge engine.
REMOVING_OPTION = {
    "partial-update": "partial-update.remove-record-on-delete",
    "aggregation": "aggregation.remove-record-on-delete",
}


def parse_on_delete(value: OnDelete) -> dict[str, str]:
    """Return the action of each kind; texts may also be pairs, ``-D=remove,-U=ignore``.

    errors   InvalidInputError for another word or kind
    """
    if isinstance(value, str):
        pairs = [part.strip().rpartition("=") for part in value.split(",")]
        named = {kind.strip(): action.strip() for kind, _, action in pairs}
    else:
        named = dict(value)
    whole = named.pop("", ON_DELETE_DEFAULT)
    out = {"-D": whole, "-U": ON_DELETE_DEFAULT if whole == "remove" else whole} | named
    if out.keys() != _KINDS.keys() or not set(out.values()) <= set(_ACTIONS) or out["-U"] == "remove":
        raise InvalidInputError(
            f"on_delete is one of {', '.join(_ACTIONS)}, or one of them for each kind (-D=remove,-U=ignore; only -D removes), "
            f"not {value!r}"
        )
    return out


def check_on_delete(schema: TableSchema, value: OnDelete) -> dict[str, str]:
    """Return `parse_on_delete`.

    errors   InvalidInputError also where a delete is to remove rows, and the table does not do that
    """
    actions = parse_on_delete(value)
    if actions["-D"] == "remove":
        _check_removes(schema)
    return actions


class KindRules:
    """The rules of a table, and of those who write to it; errors of `check_on_delete`."""

    def __init__(self, schema: TableSchema, on_delete: OnDelete = ON_DELETE_DEFAULT) -> None:
        self._schema = schema
        actions = check_on_delete(schema, on_delete)
        self._ignored = [_KINDS[k] for k, action in actions.items() if action == "ignore"]
        self._rejected = [_KINDS[k] for k, action in actions.items() if action == "reject"]

    @property
    def acts(self) -> bool:
        """True when rows have to be looked at: some kind is not simply written."""
        return bool(self._ignored or self._rejected or self._untaken())

    def ignored(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return bool[n]: rows that are left out; rows are cast, with their kinds if any is not +I."""
        if not self._ignored:
            return np.zeros(rows.num_rows, np.bool_)
        return np.isin(kinds_of_rows(rows, self._schema), self._ignored)

    def reasons(self, rows: pa.Table, done: NDArray[np.bool_]) -> dict[int, str]:
        """Return rows to reject, each with its reason.

        done   bool[n]: rows that are rejected or left out anyway
        """
        kinds = kinds_of_rows(rows, self._schema)
        if not np.isin(kinds, [*_KINDS.values()]).any():
            return {}
        out: dict[int, str] = {}
        for code in self._rejected:
            mine = np.flatnonzero((kinds == code) & ~done)
            out |= dict.fromkeys(mine.tolist(), f"kind: rows of kind {SHORT_NAMES[code]} are rejected (on_delete)")
        for rule in self._untaken():
            mine = np.flatnonzero(np.isin(kinds, rule.kinds) & ~done & _meets(rule, rows))
            out = {int(i): f"kind: {SHORT_NAMES[kinds[i]]}: {rule.why}" for i in mine} | out
        return out

    def _untaken(self) -> tuple[UntakenRows, ...]:
        # Merge engines bring Numba, and few batches have such rows.
        from lakeidx.data.engines.untaken import untaken_rows

        return untaken_rows(self._schema)


def _meets(rule: UntakenRows, rows: pa.Table) -> NDArray[np.bool_]:
    out = np.ones(rows.num_rows, np.bool_)
    if rule.with_any:
        out = np.any([np.asarray(rows.column(n).is_valid()) for n in rule.with_any], axis=0)
    if rule.zero is not None:
        column = rows.column(rule.zero)
        out &= np.asarray(pc.fill_null(pc.equal(column, pa.scalar(0).cast(column.type)), False))
    return out


def _removes(schema: TableSchema, option: str) -> bool:
    # Each is an option of one engine, so that of the other is never set.
    by_group = bool(schema.table_options.partial_update_remove_record_on_sequence_group)
    return by_group or schema.options.get(option, "false").lower() == "true"


def _check_removes(schema: TableSchema) -> None:
    """Raise InvalidInputError for a table in which a -D does not remove the row of its key."""
    options = schema.table_options
    engine, wanted = options.merge_engine, REMOVING_OPTION.get(options.merge_engine)
    why = ""
    if not schema.primary_keys:
        why = "an append table has no keys"
    elif options.ignore_delete:
        why = "option 'ignore-delete' = true lets deletes change nothing"
    elif engine == "first-row":
        why = "merge engine first-row keeps the first row"
    elif wanted is not None and not _removes(schema, wanted):
        why = f"merge engine {engine} does so with option '{wanted}' = true alone, to be set before the first rows"
    if why:
        raise InvalidInputError(f"on_delete = remove: {why}")


KIND_COLUMN = "_kind"


def kind_codes(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Convert row kind strings to codes (int8); null means +I.

    returns  codes, and bool[n] of rows whose kind is unknown (None when all are known)
    """
    text = pc.cast(column, pa.string())
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    position = pc.index_in(pc.fill_null(text, "+I"), pa.array(SHORT_NAMES))
    unknown = np.asarray(pc.is_null(position)) if position.null_count else None
    return pc.cast(pc.fill_null(position, 0), pa.int8()), unknown


def kinds_of_rows(rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int8]:
    """Return int8[n]: the kinds of rows that are cast, by the column of option ``rowkind.field`` where the table has one.

    A text there that is no kind counts as what the row came with; it is refused where rows are written.
    """
    kinds = np.zeros(rows.num_rows, np.int8)
    if VALUE_KIND in rows.column_names:
        kinds = rows.column(VALUE_KIND).to_numpy().astype(np.int8)
    named = schema.table_options.rowkind_field
    if named is None:
        return kinds
    codes = pc.index_in(pc.utf8_upper(pc.cast(rows.column(named), pa.string())), pa.array(SHORT_NAMES))
    return np.where(np.asarray(pc.is_null(codes)), kinds, np.asarray(pc.fill_null(codes, 0))).astype(np.int8)


def has_upserts(rows: pa.Table) -> bool:
    """Return True unless every row deletes its key."""
    if KIND_COLUMN not in rows.column_names:
        return bool(rows.num_rows > 0)
    codes, unknown = kind_codes(rows.column(KIND_COLUMN))
    upserts = ~is_retract(np.asarray(codes))
    return bool(upserts.any() if unknown is None else (upserts & ~unknown).any())
