"""Starts of a stream: the values of ``scan.mode`` for streams.

==================  =======================================================================================================
mode                begins with
==================  =======================================================================================================
latest-full         the whole newest state
latest              the next commit
from-snapshot       the commit of a snapshot; with the oldest one there is when that has expired
from-snapshot-full  the whole state of a snapshot
from-timestamp      the first commit at or after a time; with the oldest one there is when those have expired
compacted-full      the whole state of the newest compaction; the newest state where there is none
==================  =======================================================================================================

source   org.apache.paimon.table.source.AbstractDataTableScan, org.apache.paimon.table.source.snapshot.Continuous…Scanner,
         CompactedStartingScanner, release 1.4.2
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakeidx.table.history import earliest_commit_id, load_commit, load_tag, past_snapshot, snapshot_at, tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.position import Position
from lakeidx.table.times import epoch_ms

log = logging.getLogger(__name__)


class StartMode(StrEnum):
    """Values of ``scan.mode`` that a stream can begin with."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_TIMESTAMP = "from-timestamp"
    COMPACTED_FULL = "compacted-full"


#: Modes that nothing needs to be said with.
_ALONE = (StartMode.LATEST_FULL, StartMode.LATEST, StartMode.COMPACTED_FULL)


@dataclass(frozen=True, slots=True)
class Start:
    """A mode and what it is given.

    snapshot       for from-snapshot and from-snapshot-full; 0 = the oldest there is
    timestamp_ms   for from-timestamp, epoch ms
    """

    mode: StartMode = StartMode.LATEST_FULL
    snapshot: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, metadata: TableMetadata, text: str) -> Start:
        """Parse what people write: a mode, ``earliest``, a snapshot id, a tag (what came after it), or an ISO time.

        errors   InvalidInputError
        """
        name = text.strip()
        if name in _ALONE:
            return cls(StartMode(name))
        if name == "earliest":
            return cls(StartMode.FROM_SNAPSHOT, snapshot=0)
        if name in tag_names(metadata):
            return cls(StartMode.FROM_SNAPSHOT, snapshot=load_tag(metadata, name).id + 1)
        if name.isdecimal():
            return cls(StartMode.FROM_SNAPSHOT, snapshot=int(name))
        try:
            time_ms = epoch_ms(name)
        except InvalidInputError:
            raise InvalidInputError(
                f"{text!r}: start with {', '.join(_ALONE)}, earliest, a snapshot id, a tag or an ISO time"
            ) from None
        return cls(StartMode.FROM_TIMESTAMP, timestamp_ms=time_ms)

    def position(self, metadata: TableMetadata) -> Position:
        """Find where the stream begins now; before the first commit of a table that has none.

        errors   InvalidInputError for a mode without what it needs; NotFoundError for a whole state that is not there
        """
        newest = metadata.latest_snapshot()
        if newest is None:
            return Position(0)
        if self.mode is StartMode.LATEST:
            return Position(newest.id, newest.identity)
        if self.mode is StartMode.LATEST_FULL:
            return _whole(newest)
        if self.mode is StartMode.COMPACTED_FULL:
            return _whole(_newest_compaction(metadata) or newest)
        if self.mode is StartMode.FROM_TIMESTAMP:
            return _before(metadata, self._first_at(metadata))
        if self.snapshot is None:
            raise InvalidInputError(f"{self.mode} needs a snapshot id (scan.snapshot-id)")
        if self.mode is StartMode.FROM_SNAPSHOT_FULL:
            return _whole(past_snapshot(metadata, self.snapshot))
        if self.snapshot > newest.id + 1:
            raise InvalidInputError(
                f"snapshot {self.snapshot} does not exist yet; the newest is {newest.id}: start with latest"
            )
        return _before(metadata, self.snapshot)

    def _first_at(self, metadata: TableMetadata) -> int:
        """Return the id after the newest snapshot before the time; 0 when all came later."""
        if self.timestamp_ms is None:
            raise InvalidInputError(f"{self.mode} needs a time (scan.timestamp-millis)")
        try:
            return snapshot_at(metadata, self.timestamp_ms - 1).id + 1
        except NotFoundError:
            return 0


def _whole(snapshot: Snapshot) -> Position:
    return Position(snapshot.id, snapshot.identity, whole=True, units=0)


def _before(metadata: TableMetadata, first: int) -> Position:
    """Return the position before a commit, or before the oldest one when that has expired."""
    earliest = earliest_commit_id(metadata) or 1
    if 0 < first < earliest:
        log.warning("%s: snapshot %d has expired; beginning with %d, the oldest", metadata.paths.root, first, earliest)
    before = max(first, earliest) - 1
    try:
        return Position(before, load_commit(metadata, before).identity) if before else Position(0)
    except NotFoundError:
        # Expired, or not committed yet.
        return Position(before)


def _newest_compaction(metadata: TableMetadata) -> Snapshot | None:
    every = metadata.latest_schema().table_options.full_compaction_delta_commits
    for number in reversed(metadata.snapshot_ids()):
        try:
            found = metadata.earlier_snapshot(number)
        except NotFoundError:
            break
        identifier = found.commit_identifier
        # With the option not each compaction is a full one.
        if found.commit_kind is CommitKind.COMPACT and (
            every is None or identifier == BATCH_COMMIT_IDENTIFIER or identifier % every == 0
        ):
            return found
    return None
