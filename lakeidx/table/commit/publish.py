"""Puts a snapshot, and makes sure that it is part of the table's history."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakeidx.errors import CommitConflictError, CommitUnknownError, NotFoundError, UnavailableError
from lakeidx.format.snapshot import Snapshot, encode_snapshot
from lakeidx.table.commit.changes import TableChanges
from lakeidx.table.commit.earlier_commit import missing_files
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

_PUT_TRIES = 5


def publish(metadata: TableMetadata, snapshot: Snapshot, latest: Snapshot | None, changes: TableChanges) -> bool:
    """Put a snapshot; False when another writer was faster: then it is made again on the newest one.

    latest   the snapshot that it was made on
    errors   CommitConflictError, CommitUnknownError
    """
    store, path = metadata.store, metadata.paths.snapshot(snapshot.id)
    data = encode_snapshot(snapshot)
    last: Exception | None = None
    for _ in range(_PUT_TRIES):
        try:
            created = store.put_if_absent(path, data)
        except (CommitUnknownError, UnavailableError) as error:
            outcome = _read_back(metadata, snapshot, error)
            if outcome is None:
                last = error
                continue
            return outcome
        if created:
            return _is_on_the_chain(metadata, snapshot, latest, changes)
        return _read_back(metadata, snapshot, None) is True
    raise CommitUnknownError(
        "the store cannot tell whether the snapshot was written; commit the batch again to find out",
        path=path,
        snapshot_id=snapshot.id,
    ) from last


def _read_back(metadata: TableMetadata, snapshot: Snapshot, error: Exception | None) -> bool | None:
    """Return True when the snapshot that is there is ours, False when another one is, None when none is."""
    path = metadata.paths.snapshot(snapshot.id)
    try:
        found = metadata.snapshot(snapshot.id)
    except NotFoundError:
        return None
    except UnavailableError as second:
        raise CommitUnknownError(
            f"the store did not answer while the snapshot was put ({error}), nor when it was read back ({second})",
            path=path,
            snapshot_id=snapshot.id,
        ) from second
    return found.uuid == snapshot.uuid


def _is_on_the_chain(
    metadata: TableMetadata, snapshot: Snapshot, latest: Snapshot | None, changes: TableChanges
) -> bool:
    """Return False when the snapshot does not continue the history it was made for; it is removed again then."""
    ids = metadata.snapshot_ids()
    above = [i for i in ids if i > snapshot.id]
    if above and snapshot.id + 1 not in above:
        why = "after that id had been expired"
    elif latest is not None and not _still_there(metadata, latest, ids):
        why = "on a snapshot that was rolled back while the commit ran"
    else:
        return True
    if snapshot.id + 1 in above:
        raise CommitUnknownError(
            f"snapshot {snapshot.id} was put {why}, and other writers went on from it: roll back once more, and commit "
            "the batches after that again",
            path=metadata.paths.snapshot(snapshot.id),
            snapshot_id=snapshot.id,
        )
    log.warning("snapshot %d was written %s; deleting it and trying again", snapshot.id, why)
    metadata.store.delete(metadata.paths.snapshot(snapshot.id))
    _check_own_files(metadata, changes)
    return False


def _check_own_files(metadata: TableMetadata, changes: TableChanges) -> None:
    """CommitConflictError when a rollback that saw our snapshot has removed its files: they must be written anew."""
    gone = missing_files(metadata, changes)
    if gone:
        raise CommitConflictError(f"a rollback removed {len(gone)} files of the commit", path=gone[0])


def _still_there(metadata: TableMetadata, before: Snapshot, ids: Sequence[int]) -> bool:
    """Return True when a snapshot is in the table or has expired.

    A rollback leaves the snapshots below it and names the newest of them in the hint; expiry begins with those.
    """
    if before.id not in ids:
        below = [i for i in ids if i < before.id]
        return not below or metadata.latest_hint() != below[-1]
    try:
        return metadata.snapshot(before.id).identity == before.identity
    except NotFoundError:
        return True
