"""Puts a snapshot, and makes sure that it is part of the table's history."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lakeidx.errors import CommitConflictError, CommitUnknownError, NotFoundError, TableReplacedError, UnavailableError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.snapshot import Snapshot, encode_snapshot
from lakeidx.table.commit.chain import discard_unreadable, is_same, was_bypassed
from lakeidx.table.commit.changes import TableChanges
from lakeidx.table.commit.earlier_commit import missing_files, was_in_history
from lakeidx.table.commit.manifest_write import ManifestWriter
from lakeidx.table.commit.newest_hint import put_newest_hint
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

_PUT_TRIES = 5


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot that is made, and not put yet.

    latest        the one it was made on
    data, index   what it changes
    changes       all the files of its batch
    """

    snapshot: Snapshot
    latest: Snapshot | None
    data: Sequence[ManifestEntry]
    index: Sequence[IndexEntry]
    changes: TableChanges


def publish(metadata: TableMetadata, made: Made, writer: ManifestWriter) -> bool:
    """Put a snapshot, and name it in the hint; False when another writer was faster: then it is made again on the newest one.

    writer   has the files that the snapshot refers to, and writes them first
    errors   CommitConflictError, CommitUnknownError
    """
    snapshot = made.snapshot
    store, path = metadata.store, metadata.paths.snapshot_path(snapshot.id)
    data = encode_snapshot(snapshot)
    writer.finish()
    last: Exception | None = None
    for _ in range(_PUT_TRIES):
        try:
            created = store.put_if_absent(path, data)
        except (CommitUnknownError, UnavailableError) as error:
            outcome = _read_back(metadata, snapshot, error)
            if outcome is None:
                last = error
                continue
            created = outcome
        # A store may say that there is one already when it answers the second try of a put that had been done.
        if created or _read_back(metadata, snapshot, None):
            return _is_on_the_chain(metadata, made, data)
        return False
    raise CommitUnknownError(
        "the store cannot tell whether the snapshot was written; commit the batch again to find out",
        path=path,
        snapshot_id=snapshot.id,
    ) from last


def _read_back(metadata: TableMetadata, snapshot: Snapshot, error: Exception | None) -> bool | None:
    """Return True when the snapshot that is there is ours, False when another one is, None when none is."""
    path = metadata.paths.snapshot_path(snapshot.id)
    try:
        found = metadata.load_snapshot(snapshot.id)
    except NotFoundError:
        return None
    except UnavailableError as second:
        raise CommitUnknownError(
            f"the store did not answer while the snapshot was put ({error}), nor when it was read back ({second})",
            path=path,
            snapshot_id=snapshot.id,
        ) from second
    return found.uuid == snapshot.uuid


def _is_on_the_chain(metadata: TableMetadata, made: Made, data: bytes) -> bool:
    """Return False when the snapshot does not continue the history it was made for; it is removed again then.

    True as well when the history has the changes by another process that runs the same batch.
    """
    snapshot, latest = made.snapshot, made.latest
    if latest is not None and is_same(metadata, latest):
        metadata.append(snapshot, latest, data)
        _name_newest(metadata, snapshot.id)
        return True
    try:
        metadata.latest_schema()
    except TableReplacedError:
        metadata.store.delete(metadata.paths.snapshot_path(snapshot.id))
        raise
    without = was_bypassed(metadata, snapshot, made.data, made.index)
    if without is None:
        # What is still there stands before a gap, and was put just now.
        without = metadata.has_snapshot(snapshot.id) or not was_in_history(metadata, made.changes, snapshot)
    if without:
        why = "after that id had been expired"
    elif latest is None or not _was_rolled_back(metadata, latest):
        if not discard_unreadable(metadata, snapshot):
            _name_newest(metadata, snapshot.id)
        return True
    else:
        why = "on a snapshot that was rolled back while the commit ran"
        if metadata.has_snapshot(snapshot.id + 1):
            raise CommitUnknownError(
                f"snapshot {snapshot.id} was written {why}, and other writers committed on top of it: roll back again, "
                "then commit the later batches again",
                path=metadata.paths.snapshot_path(snapshot.id),
                snapshot_id=snapshot.id,
            )
    log.warning("snapshot %d was written %s; deleting it and trying again", snapshot.id, why)
    metadata.store.delete(metadata.paths.snapshot_path(snapshot.id))
    _check_own_files(metadata, made.changes)
    return False


def _name_newest(metadata: TableMetadata, newest: int) -> None:
    """Name our snapshot in the hint LATEST. It stands all the same where the store does not answer: readers look for it."""
    try:
        put_newest_hint(metadata, newest)
    except UnavailableError as error:
        log.warning("snapshot %d is committed, and not named in the hint LATEST: %s", newest, error)


def _check_own_files(metadata: TableMetadata, changes: TableChanges) -> None:
    """Raise CommitConflictError when a rollback that saw our snapshot has removed its files: they must be written again."""
    gone = missing_files(metadata, changes)
    if gone:
        raise CommitConflictError(f"a rollback removed {len(gone)} files of the commit", path=gone[0])


def _was_rolled_back(metadata: TableMetadata, before: Snapshot) -> bool:
    """Return True when a snapshot that is not there as it was has been rolled back; False when it has expired.

    A rollback leaves the snapshots below it, and as a rule names the newest of them in the hint; expiry begins with those, and
    needs newer ones than ours.
    """
    ids = metadata.listed_snapshot_ids()
    if before.id in ids:
        return not is_same(metadata, before)
    below = [i for i in ids if i < before.id]
    return bool(below) and (ids[-1] <= before.id + 1 or metadata.latest_hint() == below[-1])
