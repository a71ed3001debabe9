"""The consumer file of a running stream: how far it has read, and so what expiry must leave.

A stream with a consumer id resumes at that consumer's position. Every other stream holds a read lease while it runs: a consumer
file of its own, under a name with `LEASE_PREFIX`. Java's expiry keeps what consumers have not read as that of lakeidx does.
A thread writes the file again while the stream is busy or waits, so that it does not look unused; the lease of a reader that
died is removed by the next expiry of lakeidx, or the next stream, once it is `LEASE_MS` old.

source   org.apache.paimon.consumer.ConsumerManager, release 1.4.2
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.format.consumer import decode_consumer, decode_consumer_position, encode_consumer
from lakeidx.storage.files import FULL
from lakeidx.table.history import earliest_changelog_hint
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start

log = logging.getLogger(__name__)

LEASE_PREFIX = "lakeidx-reader-"
LEASE_MS = 600_000
_RENEW_SECONDS = 60.0
_BEGINNINGS = 5


class StreamConsumer:
    """A stream's consumer file; in a ``with`` block it is renewed, and a lease is removed at its end.

    id            the consumer; None = a read lease
    keeps_state   the stream compares each commit with the state before, which expiry must leave, too
    """

    def __init__(self, metadata: TableMetadata, id: str | None = None, *, keeps_state: bool = False) -> None:
        if id is not None and id.startswith(LEASE_PREFIX):
            raise InvalidInputError(f"consumer id {id!r}: names with {LEASE_PREFIX} are of read leases")
        self._lease = id is None
        self._metadata = metadata
        self._path = metadata.paths.consumer_path(id or f"{LEASE_PREFIX}{uuid.uuid4().hex}")
        self._keeps_state = keeps_state
        self._content: bytes | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def position(self) -> Position | None:
        """Read the consumer's position; None for a new one.

        errors   CorruptFileError
        """
        if self._lease:
            return None
        try:
            data = self._metadata.store.get(self._path)
        except NotFoundError:
            return None
        found, next_snapshot = decode_consumer_position(data, self._path), decode_consumer(data, self._path)
        return Position(max(next_snapshot - 1, 0)) if found is None else Position.from_json(found)

    def record(self, position: Position) -> None:
        """Write the stream's position.

        A lease that the store denies to write, or has no room for, costs a warning: tables may be read by who may not write.
        """
        try:
            self._put(encode_consumer(self._kept(position), position.to_json()))
        except (InvalidInputError, UnavailableError) as error:
            if not self._lease or not _is_denied(error):
                raise
            log.warning("no read lease, so snapshots may expire before the stream has read them: %s", error)
            self._ended.set()

    def holds(self, position: Position) -> bool:
        """Return True when the file, as it is now, keeps what comes after a position and tells of a rollback below it.

        errors   CorruptFileError
        """
        data = self._content
        if data is None and not self._lease:
            try:
                data = self._metadata.store.get(self._path)
            except NotFoundError:
                return False
        if data is None or decode_consumer_position(data, self._path) is None:
            return False
        return decode_consumer(data, self._path) <= position.next_snapshot

    def begin(self, start: Start, *, ignore_progress: bool = False) -> Position:
        """Return where the stream resumes, or begins; from now on expiry leaves what comes after it.

        start             for streams without a consumer that has progress
        ignore_progress   begin at `start` all the same
        errors            as for `Start.position`; CorruptFileError for a consumer file; NotFoundError when the state that the first
                          commit is compared with has expired
        """
        known = None if ignore_progress else self.position()
        for _ in range(_BEGINNINGS):
            position = known or start.position(self._metadata)
            if known is None and self._keeps_state:
                self._check_state(position.snapshot)
            self.record(position)
            # An expiry that began before the file was put names what goes in EARLIEST first, and looks at consumers again.
            kept, earliest = self._kept(position), self._metadata.earliest_hint() or 0
            changelog_id = earliest_changelog_hint(self._metadata) or 0
            if known is not None or earliest <= kept or not self._metadata.has_snapshot(earliest):
                return position
            if self._has_changelog(kept) and (changelog_id <= kept or not self._has_changelog(changelog_id)):
                return position
        raise UnavailableError("snapshots expire faster than the stream can begin; try again", path=self._path)

    def __enter__(self) -> Self:
        """Remove the leases of readers that died, and begin to renew."""
        listed = self._metadata.store.list(self._metadata.paths.consumer_dir)
        modified = {f.path: f.mtime_ms for f in listed if f.name.startswith(f"consumer-{LEASE_PREFIX}")}
        # Who may not write leaves them to the next expiry.
        with contextlib.suppress(InvalidInputError):
            self._metadata.store.delete_many(dead_leases(modified, round(time.time() * 1000)))
        limit = self._metadata.latest_schema().table_options.consumer_expiration_time
        pause = min(_RENEW_SECONDS, (limit or LEASE_MS) / 3000)
        self._thread = threading.Thread(target=self._renew, args=(pause,), name="consumer", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._lease and self._content is not None:
            self._metadata.store.delete(self._path)

    def _check_state(self, number: int) -> None:
        earliest = self._metadata.earliest_snapshot_id() or 0
        if 0 < number < earliest:
            raise NotFoundError(
                f"the stream is to begin with snapshot {number + 1}, but snapshot {number}, which mode derived compares it with, "
                f"has expired: begin with latest-full, or with snapshot {earliest + 1}",
                path=self._metadata.paths.snapshot_path(number),
            )

    def _has_changelog(self, changelog_id: int) -> bool:
        return self._metadata.store.exists(self._metadata.paths.changelog_path(changelog_id))

    def _kept(self, position: Position) -> int:
        """Return the oldest snapshot that expiry must leave."""
        return max(position.snapshot if self._keeps_state else position.next_snapshot, 1)

    def _put(self, content: bytes) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._metadata.store.put(self._path, content)
            self._content = content

    def _renew(self, pause: float) -> None:
        """Write the file again and again, well within the time after which it would count as unused.

        One that someone removed stays away: with a table that was dropped, for one.
        """
        store = self._metadata.store
        while not self._ended.wait(pause):
            with self._lock:
                try:
                    if self._content is not None and store.exists(self._path):
                        store.put(self._path, self._content)
                except LakeIdxError as error:
                    log.warning("the consumer file could not be renewed; trying again: %s", error)


def dead_leases(modified: Mapping[str, int], now_ms: int) -> list[str]:
    """Return the leases of readers that died.

    modified   lease -> modification time of its file, epoch ms
    """
    return [lease for lease, time_ms in modified.items() if now_ms - time_ms > LEASE_MS]


def _is_denied(error: LakeIdxError) -> bool:
    """Return True for an error that trying again does not mend: no right to write, a read-only or a full disk."""
    cause = error.__cause__
    return isinstance(error, InvalidInputError) or (isinstance(cause, OSError) and cause.errno in FULL)
