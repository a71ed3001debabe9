"""States of a table as people name them: a snapshot id, a tag, an ISO time, or the end of a branch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.options import arguments
from lakeidx.predicate import TRUE, Predicate
from lakeidx.table.history import load_tag, past_snapshot, snapshot_at, tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import says_expired
from lakeidx.table.scan.plan import ScanPlan, plan_scan
from lakeidx.table.times import epoch_ms

log = logging.getLogger(__name__)
_BRANCH = "branch:"


@dataclass(frozen=True, slots=True)
class State:
    """One state; it is read when it is needed, for a range of commits needs no more than the ids at its ends.

    metadata   of the branch that the state is in
    number     of its snapshot; 0 = the empty table
    known      its snapshot, when it was read already: a tag keeps one that has expired
    """

    metadata: TableMetadata
    number: int
    known: Snapshot | None = None

    def load_snapshot(self) -> Snapshot | None:
        """Read the snapshot, None for the empty table; NotFoundError when it has expired."""
        if self.known is not None or self.number == 0:
            return self.known
        return past_snapshot(self.metadata, self.number)

    def plan(self, schema: TableSchema, predicate: Predicate = TRUE, *, least_level: int | None = None) -> ScanPlan:
        """Plan a scan of the state; see `plan_scan`. NotFoundError says that it has expired, when it has."""
        snapshot = self.load_snapshot()
        with says_expired(self.metadata, snapshot):
            return plan_scan(self.metadata, snapshot, schema, predicate, least_level=least_level)


#: How callers name a state.
StateName: TypeAlias = int | str | State


def find_state(metadata: TableMetadata, name: StateName) -> State:
    """Find a state by its name.

    name     snapshot id (0 = the empty table), tag, ISO time, ``branch:NAME`` (its newest state) or ``branch:NAME@STATE``
    errors   InvalidInputError for text that is none of them; NotFoundError for a branch that is not there, or without commits
    """
    if isinstance(name, State):
        return name
    if not isinstance(name, str):
        return State(metadata, arguments.whole_number(name, name="a snapshot id"))
    text = name.strip()
    if text.startswith(_BRANCH):
        branch, at, state = text.removeprefix(_BRANCH).partition("@")
        there = TableMetadata.open(metadata.store, metadata.paths.root, branch=branch)
        return find_state(there, state) if at else snapshot_state(there, there.latest_snapshot())
    tags = tag_names(metadata)
    if text in tags:
        tag = load_tag(metadata, text)
        return State(metadata, tag.id, tag)
    if text.isdecimal():
        return State(metadata, int(text))
    try:
        time_ms = epoch_ms(text)
    except InvalidInputError:
        have = ", ".join(tags) or "none"
        raise InvalidInputError(
            f"{name!r} is not a tag of the table, a snapshot id or an ISO time; tags: {have}", path=metadata.paths.root
        ) from None
    return state_at(metadata, time_ms)


def state_at(metadata: TableMetadata, time_ms: int) -> State:
    """Find the state readers saw at a time (epoch ms): before the oldest snapshot, the one in front of it."""
    try:
        found = snapshot_at(metadata, time_ms)
    except NotFoundError:
        return State(metadata, (metadata.earliest_snapshot_id() or 1) - 1)
    return State(metadata, found.id, found)


def time_travel(
    metadata: TableMetadata, *, snapshot_id: int | None = None, tag: str | None = None, timestamp_ms: int | None = None
) -> Snapshot | None:
    """Find the snapshot of a read: one of id, tag or timestamp, or the newest; None for a table without snapshots."""
    asked = [n for n, v in (("snapshot", snapshot_id), ("tag", tag), ("timestamp", timestamp_ms)) if v is not None]
    if len(asked) > 1:
        raise InvalidInputError(f"a scan reads one state: give only one of {', '.join(asked)}")
    if snapshot_id is not None:
        return past_snapshot(metadata, arguments.whole_number(snapshot_id, name="snapshot"))
    if tag is not None:
        return load_tag(metadata, arguments.as_text(tag, name="tag"))
    if timestamp_ms is not None:
        return snapshot_at(metadata, timestamp_ms)
    return metadata.latest_snapshot()


@dataclass(frozen=True, slots=True)
class Fallback:
    """The state of the branch that partitions are read from which the table lacks (option `scan.fallback-branch`).

    schema   options and keys of the branch, columns of the table
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: TableSchema


def find_fallback(
    metadata: TableMetadata,
    schema: TableSchema,
    found: Snapshot | None,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp_ms: int | None = None,
) -> Fallback | None:
    """Find what a read of a state that `time_travel` found falls back on; None: the newest schema names no branch.

    It is the newest state of the branch, or its state at the time; for a snapshot that of the snapshot's time, or its first one;
    for a tag its tag of the same name, if it has one, as release 2.1 does (1.4.2 looks for the tag in the table alone).

    schema   of the rows
    returns  None, with a warning, also for a branch that is not there
    errors   UnsupportedError where the branch has other columns
    source   org.apache.paimon.table.FallbackReadFileStoreTable, release 1.4.2
    """
    name = metadata.latest_schema().table_options.scan_fallback_branch
    if not name or not name.strip() or name.strip() == metadata.paths.branch:
        return None
    try:
        branch = TableMetadata.open(metadata.store, metadata.paths.root, branch=name.strip())
    except NotFoundError as error:
        log.warning("%s: option scan.fallback-branch is without effect: %s", metadata.paths.root, error.message)
        return None
    newest = found is None or (snapshot_id is None and tag is None and timestamp_ms is None)
    if found is None or newest:
        state = branch.latest_snapshot()
    elif tag is not None:
        state = load_tag(branch, tag) if tag in tag_names(branch) else None
    elif timestamp_ms is not None:
        state = state_at(branch, timestamp_ms).known
    else:
        there = state_at(branch, found.time_millis)
        state = there.known or (branch.load_snapshot(1) if branch.latest_snapshot() else None)
    theirs = branch.latest_schema() if state is None or newest else branch.load_schema(state.schema_id)
    columns, of_theirs = ([f.type.with_nullable(True) for f in s.fields] for s in (schema, theirs))
    known = set(theirs.primary_keys) <= set(schema.field_names)
    if columns != of_theirs or theirs.partition_keys != schema.partition_keys or not known:
        raise UnsupportedError(
            f"branch {name!r} (scan.fallback-branch) has other columns or partition keys than {metadata.paths.branch!r}: "
            "change the columns of one as those of the other, or reset the option",
            path=metadata.paths.root,
        )
    return Fallback(branch, state, replace(theirs, fields=schema.fields))


def check_range(metadata: TableMetadata, after: int, upto: int) -> None:
    """Raise NotFoundError when a snapshot in (after, upto] was put on its id after the real one had expired.

    cost   one listing
    """
    strays = [i for i in metadata.stray_snapshot_ids() if after < i <= upto]
    if strays:
        past_snapshot(metadata, strays[0])


def snapshot_state(metadata: TableMetadata, snapshot: Snapshot | None) -> State:
    """Return the state of a snapshot; the empty table for None."""
    return State(metadata, 0) if snapshot is None else State(metadata, snapshot.id, snapshot)


def find_range(metadata: TableMetadata, text: str) -> tuple[State, State | None]:
    """Find the ends of a range in its text form: ``A..B``; ``A..`` ends at the newest state (None), ``..B`` begins with the empty
    table.

    errors   InvalidInputError for another form
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise InvalidInputError(f"{text!r}: write a range as A..B, with snapshot ids, tags or ISO times")
    after = find_state(metadata, first) if first.strip() else State(metadata, 0)
    return after, find_state(metadata, last) if last.strip() else None
