"""A table as its description wants it: made when it is not there, and changed as far as a policy allows.

Columns are matched by name, so a column under another name is a dropped and an added one: rename with ``lakeidx table alter``.

========  =====================================================================================================
policy    what is applied
========  =====================================================================================================
refuse    nothing; any difference is an error that shows all of them
add       new columns, comments, options that the description sets
widen     the same, wider types, and columns that may hold nulls from now on
all       the same, columns and options that are in the table only are dropped, and columns get the wanted order
========  =====================================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.batch.index_types import check_index_type
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.paths import split_branch_name
from lakeidx.format.schema.edits import Difference, SchemaEdits
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.table.handle import TableHandle
from lakeidx.types import Field, format_type
from lakeidx.types.widening import is_widening, same_shape

log = logging.getLogger(__name__)

POLICIES = ("refuse", "add", "widen", "all")
_NEVER = "never"


@dataclass(frozen=True, slots=True)
class WantedChange:
    """One difference between a table and its description, and the first policy that applies it (`never`: none does)."""

    difference: Difference
    policy: str

    def allowed(self, policy: str) -> bool:
        """Return True when a policy applies the change."""
        return self.policy != _NEVER and POLICIES.index(self.policy) <= POLICIES.index(policy)


def ensure_table(
    uri: str,
    spec: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None = None,
    *,
    policy: str = "refuse",
    landed: bool = False,
    create_branch: bool = False,
) -> TableHandle:
    """Open the table of a description; make it when it is not there, change it as far as the policy allows.

    spec     as for `TableHandle.create`
    create_branch   make the branch that `uri` names at the table's newest snapshot when it is not there
    landed   the table may be ahead of its description: columns and wider types that landing files brought stay
    errors   InvalidInputError with every difference that the policy does not apply, and for those that no table can follow
    """
    if policy not in POLICIES:
        raise InvalidInputError(f"schema_changes is one of {', '.join(POLICIES)}, not {policy!r}")
    try:
        table = TableHandle.open(uri, storage_options)
    except NotFoundError:
        root, branch = split_branch_name(uri)
        if branch is not None:
            if not create_branch:
                raise
            main = ensure_table(root, spec, storage_options, policy=policy, landed=landed).metadata
            from lakeidx.maintenance.branches.create import create_branch as make_branch

            make_branch(main, branch, snapshot_id=main.latest_snapshot_id())
            return TableHandle.open(uri, storage_options)
        check_index_type(new_schema(spec))
        table = TableHandle.create(uri, spec, storage_options, exist_ok=True)
    _apply_wanted(table, new_schema(spec), policy, landed=landed)
    return table


def _apply_wanted(table: TableHandle, wanted: TableSchema, policy: str, *, landed: bool) -> None:
    """Change a table as a description wants it, as far as the policy allows; see `ensure_table`."""
    have = table.schema
    if have.primary_keys != wanted.primary_keys or have.partition_keys != wanted.partition_keys:
        raise InvalidInputError(
            f"the table has the primary key ({', '.join(have.primary_keys)}) and the partition columns "
            f"({', '.join(have.partition_keys)}), its description has others; neither can change",
            path=table.uri,
        )
    changes = [c for c in _wanted_changes(have, wanted) if not (landed and _is_landed(c, have, wanted))]
    refused = [c for c in changes if not c.allowed(policy) and not _only_in_table(c)]
    if refused:
        raise InvalidInputError(_refusal(refused, policy), path=table.uri)
    applied = [c for c in changes if c.allowed(policy)]
    edits = _edits(have, wanted, applied, reorder=policy == "all")
    if edits:
        # Loaded where it is needed: most tables are as they are wanted.
        from lakeidx.maintenance.alter import alter_table

        log.info("%s", alter_table(table, edits))


def _wanted_changes(have: TableSchema, wanted: TableSchema) -> Iterator[WantedChange]:
    """Compare a table with its description, column by column and option by option."""
    for field in wanted.fields:
        old = have.fields_by_name.get(field.name)
        if old is None:
            yield WantedChange(Difference("column", field.name, "added", after=str(field.type)), "add")
        else:
            yield from _field_changes(old, field)
    for name in have.field_names:
        if name not in wanted.fields_by_name:
            yield WantedChange(Difference("column", name, "dropped", str(have.field(name).type)), "all")
    for key in sorted({*have.options, *wanted.options}):
        before, after = have.options.get(key, ""), wanted.options.get(key, "")
        if key not in wanted.options:
            yield WantedChange(Difference("option", key, "reset", before), "all")
        elif before != after:
            yield WantedChange(Difference("option", key, "set", before, after), "add")


def _field_changes(old: Field, new: Field) -> Iterator[WantedChange]:
    if not same_shape(old.type.with_nullable(True), new.type.with_nullable(True)):
        wider = not new.type.is_nested and is_widening(old.type, new.type)
        types = (str(old.type.with_nullable(True)), str(new.type.with_nullable(True)))
        yield WantedChange(Difference("column", new.name, "type", *types), "widen" if wider else _NEVER)
    if old.type.nullable != new.type.nullable:
        texts = ("NOT NULL", "nullable")
        change = Difference("column", new.name, "nullability", texts[old.type.nullable], texts[new.type.nullable])
        yield WantedChange(change, "widen")
    if new.description is not None and old.description != new.description:
        yield WantedChange(Difference("column", new.name, "comment", old.description or "", new.description), "add")


def _is_landed(change: WantedChange, have: TableSchema, wanted: TableSchema) -> bool:
    """Return True for a column, or a wider type, that landing files have given the table."""
    difference = change.difference
    if difference.what != "column" or difference.change not in ("dropped", "type"):
        return False
    return difference.change == "dropped" or is_widening(
        wanted.field(difference.name).type, have.field(difference.name).type
    )


def _only_in_table(change: WantedChange) -> bool:
    """Pass over an option that only the table has: it may be another program's; it disturbs no one."""
    return change.difference.what == "option" and change.difference.change == "reset"


def _refusal(refused: list[WantedChange], policy: str) -> str:
    shown = "; ".join(str(c.difference) for c in refused)
    never = [c for c in refused if c.policy == _NEVER]
    if never:
        way_out = f"{never[0].difference.name}: such a change loses values, write a new table"
    else:
        needed = max((c.policy for c in refused), key=POLICIES.index)
        way_out = f"allow it with 'schema_changes: {needed}', or change table or file"
    return f"the table is not as described ({shown}), and schema_changes is {policy}; {way_out}"


def _edits(have: TableSchema, wanted: TableSchema, changes: list[WantedChange], *, reorder: bool) -> SchemaEdits:
    def names(change: str, what: str = "column") -> list[str]:
        return [c.difference.name for c in changes if c.difference.change == change and c.difference.what == what]

    added = names("added")
    dropped = names("dropped")
    return SchemaEdits(
        reset=names("reset", "option"),
        set={key: wanted.options[key] for key in names("set", "option")},
        drop=dropped,
        add={n: format_type(wanted.field(n).type) for n in added},
        types={n: format_type(wanted.field(n).type) for n in names("type")},
        nullable={n: wanted.field(n).type.nullable for n in names("nullability")},
        comments={
            **{n: wanted.field(n).description for n in names("comment")},
            **{n: wanted.field(n).description for n in added if wanted.field(n).description is not None},
        },
        move=_moves(have, wanted, added, dropped) if reorder else None,
    )


def _moves(have: TableSchema, wanted: TableSchema, added: list[str], dropped: list[str]) -> dict[str, str] | None:
    """Plan moves that put the columns in the wanted order; None when they are in it."""
    now = [*(n for n in have.field_names if n not in dropped), *added]
    if now == list(wanted.field_names):
        return None
    order = wanted.field_names
    return {name: "first" if i == 0 else f"after {order[i - 1]}" for i, name in enumerate(order)}
