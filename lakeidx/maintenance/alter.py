"""Changing a table's schema and options: one new schema file, put if absent, after everything it could break was examined.

A batch may be staged, or even end, between the look at the table and the put. What a staged batch would be refused for is
therefore examined again after the put; if it could break something by then, the schema of before is put once more.

source   org.apache.paimon.schema.SchemaManager.commitChanges, release 1.4.2; the refusals around indexes, staged batches and
         nulls that are in the table are lakeidx's own
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakeidx.batch.index_types import TableIndex, check_index_type
from lakeidx.batch.schema_drift import drift_reason, staged_batches
from lakeidx.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LakeIdxError
from lakeidx.format.schema.changes import evolve
from lakeidx.format.schema.edits import Difference, SchemaEdits, schema_differences
from lakeidx.format.schema.feature_gate import check_columns_may_change
from lakeidx.format.schema.schema_file import TableSchema, encode_schema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.registry import find_type
from lakeidx.landing.missing_columns import check_default
from lakeidx.results import Result
from lakeidx.storage.probe import ensure_safe
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.table.scan.table_scan import scan_committed
from lakeidx.table.usable import check_usable
from lakeidx.table.view import load_live

log = logging.getLogger(__name__)

_TRIES = 10


@dataclass(frozen=True, slots=True, repr=False)
class AlterResult(Result):
    """Result of an alteration, or with `dry_run` its plan.

    before, after   schema ids; the same when there was nothing to change
    differences     one by one, columns first
    hidden          files whose rows readers do not see any more until the next compaction
    """

    table: str
    before: int
    after: int
    differences: tuple[Difference, ...]
    dry_run: bool = False
    hidden: int = 0

    @property
    def changed(self) -> bool:
        """True when there was anything to change."""
        return bool(self.differences)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "table": self.table,
            "before": self.before,
            "after": self.after,
            "changed": self.changed,
            "dry_run": self.dry_run,
            "differences": [asdict(d) for d in self.differences],
            **({"hidden": self.hidden, "note": self.note()} if self.hidden else {}),
        }

    def __str__(self) -> str:
        if not self.changed:
            return f"{self.table}: nothing to change, the schema ({self.before}) is as wanted"
        verb = "would become" if self.dry_run else "is now"
        head = f"{self.table}: schema {self.before} {verb} schema {self.after}"
        return "\n".join([head, *(f"  {d}" for d in self.differences), *([self.note()] if self.hidden else [])])

    def note(self) -> str:
        """Return what the change means for rows that are there; empty as a rule."""
        if not self.hidden:
            return ""
        return (
            f"readers do not see the rows of {self.hidden} files any more until the next compaction: run "
            f"`lakeidx compact {self.table}`"
        )


def alter_table(table: TableHandle, edits: SchemaEdits, *, dry_run: bool = False) -> AlterResult:
    """Change columns and options of a table: all of the changes, as one new schema, or none.

    dry_run  check and compare, write nothing
    errors   InvalidInputError, UnsupportedError naming the column or option and why it cannot change; CommitConflictError when
             other alterations were faster again and again
    """
    for _ in range(_TRIES):
        old = table.schema
        examined = table.metadata.latest_snapshot()
        new = plan_alteration(table, old, edits)
        differences = schema_differences(old, new)
        if not differences:
            return AlterResult(table.uri, old.id, old.id, (), dry_run)
        if dry_run or put_schema(table, new):
            if not dry_run and drift_reason(old, new):
                _examine_again(table, old, new, edits, examined)
            result = AlterResult(table.uri, old.id, new.id, differences, dry_run, _hidden(table, old, new, examined))
            log.info("%s", result)
            return result
    raise CommitConflictError(
        f"gave up after {_TRIES} tries, since other schema changes came first each time; try again", path=table.uri
    )


def _hidden(table: TableHandle, old: TableSchema, new: TableSchema, snapshot: Snapshot | None) -> int:
    if snapshot is None or skips_level_0(old) or not skips_level_0(new):
        return 0
    return int((load_live(table.metadata, snapshot).column("level") == 0).sum())


def plan_alteration(table: TableHandle, old: TableSchema, edits: SchemaEdits) -> TableSchema:
    """Return the schema that a schema of the table becomes, for `put_schema`; nothing is written.

    errors   as `alter_table`, but for other alterations
    """
    has_snapshot = table.metadata.latest_snapshot_id() is not None
    new = evolve(old, edits.changes(has_snapshot=has_snapshot))
    if schema_differences(old, new):
        _check_alteration(table, old, new, has_snapshot=has_snapshot)
    return new


def _check_alteration(table: TableHandle, old: TableSchema, new: TableSchema, *, has_snapshot: bool) -> None:
    """Refuse a new schema that would break an index, a merge engine, staged batches, or existing rows.

    errors   InvalidInputError or UnsupportedError with the reason
    """
    check_usable(new, before=old)
    if old.fields != new.fields:
        check_columns_may_change(new, table.paths.root)
    fallback = new.table_options.scan_fallback_branch
    if fallback and fallback.strip() and fallback != old.table_options.scan_fallback_branch:
        table.branch(fallback.strip())
    check_index_type(new)
    for field in new.fields:
        check_default(field)
    _check_staged(table, old, new)
    if has_snapshot:
        _check_index_change(old, new)
        _check_key_names(old, new)
        _check_no_nulls(table, old, new)


def put_schema(table: TableHandle, new: TableSchema) -> bool:
    """Make a planned schema the table's newest; False when another alteration was faster, and has to be planned upon."""
    store, path, data = table.store, table.paths.schema_path(new.id), encode_schema(new)
    if not store.place.startswith("local:"):
        ensure_safe(store, table.paths.manifest_dir)
    try:
        if store.put_if_absent(path, data):
            return True
    except CommitUnknownError:
        # The store did not say who put the file: what is in it does.
        if not store.exists(path):
            raise
    return store.get(path) == data


def _examine_again(
    table: TableHandle, old: TableSchema, new: TableSchema, edits: SchemaEdits, examined: Snapshot | None
) -> None:
    """Put the schema of before once more when a batch that was written by it came in before the new one was put.

    A batch that is staged later is written by the new schema, or refused before its commit.
    examined   the newest snapshot before the table was looked at
    errors     those of `plan_alteration`
    """
    newest = table.metadata.latest_snapshot()
    try:
        if newest is not None and (examined is None or examined.identity != newest.identity):
            plan_alteration(table, old, edits)
        else:
            _check_staged(table, old, new)
    except LakeIdxError as error:
        before = evolve(new, [lambda _: replace(old, highest_field_id=new.highest_field_id)])
        if not put_schema(table, before):
            error.message += f"; schema {new.id} was put before this was seen, and another change followed it"
        raise


def _check_staged(table: TableHandle, old: TableSchema, new: TableSchema) -> None:
    """Refuse a change that a staged batch would be refused for while there is one: the batch was first."""
    reason = drift_reason(old, new)
    running = staged_batches(table.store, table.paths) if reason else []
    if running:
        raise InvalidInputError(
            f"{reason}, but batch {running[0]!r} is staged with the schema before this change: commit it, or clean it up with "
            "`lakeidx expire`, then alter the table",
            path=table.uri,
        )


def _check_index_change(old: TableSchema, new: TableSchema) -> None:
    before, after = TableIndex.of(old), TableIndex.of(new)
    if before.name != after.name and not (before.by_hash_index and after.by_hash_index):
        raise InvalidInputError(
            f"option 'index.type' cannot change from {before.name} to {after.name} once the table has a snapshot: existing keys "
            "would not be found and would be written again; write the rows into a new table"
        )
    if new.primary_keys and before.is_global != after.is_global:
        raise InvalidInputError("whether keys are unique across partitions cannot change once the table has a snapshot")
    types = [find_type(index.options) for index in (before, after)]
    for key in dict.fromkeys(key for t in types for key in t.placement):
        if before.options.raw.get(key) != after.options.raw.get(key):
            raise InvalidInputError(
                f"option '{key}' cannot change once the table has a snapshot: the index would no longer find existing keys"
            )


def _check_key_names(old: TableSchema, new: TableSchema) -> None:
    """Refuse to rename key columns with Hudi's record keys, which contain their names in filters and in HBase."""
    by_keys = [index for index in (TableIndex.of(old), TableIndex.of(new)) if index.locator is not None]
    if old.primary_keys != new.primary_keys and by_keys:
        name = next(k for k in old.primary_keys if k not in new.primary_keys)
        raise InvalidInputError(
            f"primary key column {name!r} cannot be renamed: an index of type {by_keys[0].name} stores keys under its name"
        )


def _check_no_nulls(table: TableHandle, old: TableSchema, new: TableSchema) -> None:
    for field in new.fields:
        before = old.fields_by_id.get(field.id)
        if before is None or field.type.nullable or not before.type.nullable:
            continue
        if _has_null(table, before.name):
            raise InvalidInputError(f"column {field.name!r} cannot become NOT NULL: the table has rows with null in it")


def _has_null(table: TableHandle, name: str) -> bool:
    def look(_: Snapshot | None) -> bool:
        scan = scan_committed(table, where=f"`{name}` IS NULL", columns=[name], limit=1)
        return bool(scan.to_arrow().num_rows)

    return on_newest(table.metadata, look)
