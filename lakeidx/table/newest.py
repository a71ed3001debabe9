"""Reads of the newest state, and of an older one, while other programs expire snapshots and roll them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.times import iso_utc
from lakeidx.table.view import SnapshotView, load_view

T = TypeVar("T")

#: How often a reader looks again when files that it was pointed to are gone.
TRIES = 10


def on_newest(metadata: TableMetadata, look: Callable[[Snapshot | None], T]) -> T:
    """Look at the newest snapshot (None: there is none), and again at a newer one when a file of it was missing.

    errors   NotFoundError when a file is missing in the newest snapshot, or expiry was faster each time
    """
    for _ in range(TRIES - 1):
        snapshot = metadata.latest_snapshot()
        try:
            return look(snapshot)
        except NotFoundError:
            if not is_superseded(metadata, snapshot):
                raise
    snapshot = metadata.latest_snapshot()
    with says_expired(metadata, snapshot):
        return look(snapshot)


def load_newest(metadata: TableMetadata, *, partitions: Collection[bytes] | None = None) -> SnapshotView:
    """Load the live files of the newest snapshot, as `load_view`."""
    return on_newest(metadata, lambda snapshot: load_view(metadata, snapshot, partitions=partitions))


def until_newest(metadata: TableMetadata, ask: Callable[[], T], answered_by: Callable[[], Snapshot | None]) -> T:
    """Ask what looks for the newest snapshot itself; again when a file was missing and there is a newer one.

    answered_by   the snapshot that was asked last
    """
    for _ in range(TRIES - 1):
        try:
            return ask()
        except NotFoundError:
            asked, newest = answered_by(), metadata.latest_snapshot()
            if (asked and asked.identity) == (newest and newest.identity):
                raise
    return ask()


@contextmanager
def says_expired(metadata: TableMetadata, snapshot: Snapshot | None, *, by_changelog: bool = False) -> Iterator[None]:
    """Say in the error of a missing file that the snapshot which is read has expired or was rolled back, when it has.

    by_changelog   only what its commit changed is read, and a changelog that outlives the snapshot keeps that
    """
    try:
        yield
    except NotFoundError as error:
        from lakeidx.table.history import how_gone, what_exists

        if snapshot is None or error.snapshot_id is not None or not (gone := how_gone(metadata, snapshot)):
            raise
        if by_changelog and metadata.store.exists(metadata.paths.changelog_path(snapshot.id)):
            raise
        raise NotFoundError(
            f"snapshot {snapshot.id} of {iso_utc(snapshot.time_millis)} {gone} while it was read "
            f"({error.path or error.message} is gone); {what_exists(metadata)}: read again, or "
            "keep snapshots longer (snapshot.time-retained, snapshot.num-retained.min and .max), or tag the one to read",
            path=metadata.paths.root,
            snapshot_id=snapshot.id,
        ) from error


def is_superseded(metadata: TableMetadata, snapshot: Snapshot | None) -> bool:
    """Return True when another snapshot is the newest one now."""
    newest = metadata.latest_snapshot()
    return snapshot is not None and (newest is None or newest.identity != snapshot.identity)
