"""Follows a table snapshot by snapshot: what each one brings to a stream.

A commit brings the changes that `lakeidx.table.scan.changes` finds for it alone; a stream that begins with a whole state reads
that first. What level such a state is read from depends on what follows: the changelog of later compactions brings the rest.

source   org.apache.paimon.table.source.DataTableStreamScan, org.apache.paimon.table.source.snapshot.{DeltaFollowUpScanner,
         ChangelogFollowUpScanner}, release 1.4.2. One departure: Java leaves level 0 out of the whole state of every table that
         needs lookups; where the steps that follow are not the changelog of compactions, its rows would be in no step.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from threading import Event

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.predicate import Predicate, columns
from lakeidx.table.history import earliest_commit_id, load_commit
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.changes import ChangeScan, scan_changes
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.plan import plan_scan
from lakeidx.table.scan.states import State, check_range
from lakeidx.table.scan.table_scan import bind_where
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position, check_history
from lakeidx.table.stream.start import Start

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamStep:
    """Changes that one snapshot brings to a stream.

    snapshot   the snapshot, or the changelog that outlives it
    changes    its rows with their kinds; of a whole state all ``+I``
    position   where the stream stands when all of it is read
    batch_id   the same whenever the stream reads this step: name a batch so, and it is committed once
    """

    snapshot: Snapshot
    changes: ChangeScan
    position: Position
    batch_id: str

    @property
    def whole(self) -> bool:
        """True for the whole state of the snapshot, with which a stream begins."""
        return self.position.whole


@dataclass(frozen=True, slots=True)
class ChangeFollower:
    """Plans the steps of one stream.

    columns   columns to give, in order; None = all
    where     tested on each row by its own values
    mode      see `lakeidx.table.scan.changes`; not diff
    schema    all rows are read with it, and the stream stops when a column it reads is dropped or gets another type, or a
              fast-forwarded branch has another in its place;
              None: each step is read with the newest schema there is then
    """

    metadata: TableMetadata
    columns: tuple[str, ...] | None = None
    where: str | Predicate | None = None
    mode: IncrementalMode = IncrementalMode.AUTO
    schema: TableSchema | None = None

    def __post_init__(self) -> None:
        if self.mode is IncrementalMode.DIFF:
            raise InvalidInputError("a stream follows commits: mode is auto, delta, changelog or derived, not diff")

    @property
    def compares_states(self) -> bool:
        """True when a step needs the state before its snapshot, too."""
        return self.mode is IncrementalMode.DERIVED

    def steps(self, position: Position, *, held: bool = False) -> Iterator[StreamStep]:
        """Yield what came after a position up to the newest snapshot there is now, one step a snapshot.

        position   a step that is read in part comes whole
        held       see `check_history`
        errors     InvalidInputError when what was read is not in the table's history any more, or the schema has changed;
                   NotFoundError when a snapshot that was not read has expired
        """
        newest = self.metadata.latest_snapshot()
        check_history(self.metadata, position, held=held)
        if newest is None or newest.id < position.next_snapshot:
            return
        check_range(self.metadata, position.next_snapshot - 1, newest.id)
        now = self.metadata.latest_schema()
        schema = self.schema or now
        if not self._is_there(schema):
            self._check_schema(schema, now, renamed=False)
        for number in range(position.next_snapshot, newest.id + 1):
            yield self._step(number, schema, whole=position.whole and number == position.snapshot)

    def _step(self, number: int, schema: TableSchema, *, whole: bool) -> StreamStep:
        try:
            snapshot = self.metadata.load_snapshot(number) if whole else load_commit(self.metadata, number)
            if self.schema is not None and snapshot.schema_id > schema.id:
                self._check_schema(schema, self.metadata.load_schema(snapshot.schema_id))
            changes = self._whole(snapshot, schema) if whole else self._changes(number, schema)
        except NotFoundError as error:
            raise self._expired(number) or error from None
        if snapshot.commit_kind is CommitKind.OVERWRITE and not whole and not self.compares_states:
            where = self.metadata.paths.root
            log.warning("%s: snapshot %d is an overwrite, whose rows only mode derived returns", where, number)
        position = Position(number, snapshot.identity, whole=whole)
        return StreamStep(snapshot, changes, position, self._batch_id(position))

    def _changes(self, number: int, schema: TableSchema) -> ChangeScan:
        where = bind_where(self.where, schema)
        after, upto = State(self.metadata, number - 1), State(self.metadata, number)
        return scan_changes(schema, after, upto, predicate=where, columns=self.columns, mode=self.mode)

    def _whole(self, snapshot: Snapshot, schema: TableSchema) -> ChangeScan:
        where, least = bind_where(self.where, schema), least_level(schema, self.mode)
        plan = plan_scan(self.metadata, snapshot, schema, where, least_level=least)
        names = schema.field_names if self.columns is None else self.columns
        return ChangeScan(self.metadata, schema, tuple(names), (plan,), as_new=True)

    def _is_there(self, schema: TableSchema) -> bool:
        try:
            return self.metadata.load_schema(schema.id) == schema
        except NotFoundError:
            return False

    def _check_schema(self, began: TableSchema, now: TableSchema, *, renamed: bool = True) -> None:
        """Refuse to go on when a column that is read is another one now.

        renamed   False: `now` does not continue `began`, as after the fast-forward of a branch, where a column of another name is
                  another one
        """
        read = {*(began.field_names if self.columns is None else self.columns)}
        for name in (*read, *sorted({*columns(bind_where(self.where, began))} - read)):
            field = began.field(name)
            found = now.fields_by_id.get(field.id)
            became = ""
            if found is None:
                became = "is dropped"
            elif found.type != field.type:
                became = f"is {found.type} instead of {field.type}"
            elif not renamed and found.name != name:
                became = f"has become {found.name!r}"
            if became:
                raise InvalidInputError(
                    f"column {name!r} {became} since schema {now.id}: load the stream again; it resumes at its position",
                    path=self.metadata.paths.schema_path(now.id),
                )

    def _expired(self, number: int) -> NotFoundError | None:
        earliest = earliest_commit_id(self.metadata)
        if earliest is None or earliest <= number - self.compares_states:
            return None
        needs = (
            f"snapshot {number - 1} (mode {self.mode} compares with it)" if earliest <= number else f"snapshot {number}"
        )
        return NotFoundError(
            f"the stream is to continue with snapshot {number}, but {needs} has expired; the oldest is {earliest}. Start it anew "
            "(without its consumer's progress, or with a new checkpoint); a consumer keeps what it has not read",
            path=self.metadata.paths.snapshot_path(number),
        )

    def _batch_id(self, position: Position) -> str:
        """Name the step: by its snapshot, and by a digest of everything that decides which rows it has."""
        said = (self.metadata.table_id, position.identity, position.whole, self.mode, self.columns, str(self.where))
        digest = hashlib.sha256(repr(said).encode()).hexdigest()[:16]
        return f"snapshot-{position.snapshot}-{digest}"


def least_level(schema: TableSchema, mode: IncrementalMode) -> int | None:
    """Return the lowest level of a whole state from which the steps that follow continue."""
    if mode is IncrementalMode.DERIVED:
        return None
    if mode is IncrementalMode.DELTA:
        return 0
    options = schema.table_options
    return {"lookup": 1, "full-compaction": options.max_levels - 1}.get(options.changelog_producer, 0)


def run_stream(
    follower: ChangeFollower,
    consumer: StreamConsumer,
    start: Start,
    *,
    ignore_progress: bool = False,
    every: float | None = None,
    stop: Event | None = None,
) -> Generator[StreamStep]:
    """Yield the steps of a stream; requesting the next one marks the one before as done, and records it.

    every   seconds between two looks for new snapshots; None = end at the newest one
    stop    ends the stream before its next step
    """
    stop = stop or Event()
    with consumer:
        position = consumer.begin(start, ignore_progress=ignore_progress)
        while True:
            for step in follower.steps(position, held=consumer.holds(position)):
                if stop.is_set():
                    return
                yield step
                position = step.position
                consumer.record(position)
            if every is None or stop.wait(every):
                return
