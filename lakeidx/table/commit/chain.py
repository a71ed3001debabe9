"""Chain of snapshots: whether one that was put is part of the table's history, or was put on an expired id.

While a writer is between its look at the newest snapshot, N - 1, and its put of N, others may write N, N + 1 and more, and let
N - 1 and N expire: the put then succeeds on a name that is free but dead, and no writer continues from it. A snapshot does not say
which one it follows. What is known:

- Snapshots expire from the oldest on, one by one. While N - 1 is there, no N has expired.
- The newest snapshot never expires. So when N had, N + 1 is there or has expired, too, and one after it is there.
- What is there without a gap up to the newest snapshot is the history. Before a gap stand only snapshots that were put on expired
  ids, several at once perhaps, so that one seems to follow another.
- The manifests at the base of N + 1 say what N held. Files of a batch have names of their own, so if the files that our N
  added are not among them, N + 1 was committed on another N.
- Two processes may run one batch. When one had committed it as N, or before, and the other puts it on the expired id, N + 1 holds
  its files all the same. Then the batch is in the history, and our N is as good as the one that expired, unless that expiry
  removed files that both refer to.

source   lakeidx's own; org.apache.paimon.operation.FileStoreCommitImpl, release 1.4.2, does not look
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from lakeidx.errors import CommitUnknownError, NotFoundError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import Snapshot
from lakeidx.storage.base import ObjectStore
from lakeidx.table.entries import live_files, of_partitions
from lakeidx.table.entry_decoder import entries_of
from lakeidx.table.entry_kernels import found_in
from lakeidx.table.index_files import index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path
from lakeidx.tasks.in_parallel import in_parallel

log = logging.getLogger(__name__)

_TRIES = 10


def is_stray(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return True when an existing snapshot does not belong to the history, or has been deleted meanwhile.

    errors   CommitUnknownError
    """
    if metadata.has_snapshot(snapshot.id - 1):
        return False
    try:
        delta = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        return was_bypassed(metadata, snapshot, metadata.load_manifests(delta), ()) is not False
    except NotFoundError:
        return True


def was_bypassed(
    metadata: TableMetadata, snapshot: Snapshot, data: Sequence[ManifestEntry], index: Sequence[IndexEntry]
) -> bool | None:
    """Return True when later snapshots follow another snapshot of that id, which had expired when this one was put.

    Asked when the snapshot before it is gone.
    returns       None when the files of the batch tell (`earlier_commit.was_in_history`): the snapshot is gone as well, and the one
                  after it, so it has expired in its turn, or another process that runs the same batch has taken it away; or
                  it stands before a gap, as one does that was put on an expired id, and one that an expiry failed to delete
    data, index   what it changed
    errors        CommitUnknownError when it cannot be determined
    """
    for _ in range(_TRIES):
        ids = metadata.listed_snapshot_ids()
        newest = ids[-1] if ids else 0
        if newest <= snapshot.id:
            return False
        missing = next((i for i in range(snapshot.id + 1, newest) if i not in ids), None)
        if missing is None:
            try:
                return not _follows(metadata, metadata.load_snapshot(snapshot.id + 1), snapshot, data, index)
            except NotFoundError:
                continue  # expired meanwhile
        # A listing may leave out what came while it was made.
        if not metadata.has_snapshot(missing) and metadata.expired_before(missing, newest):
            _check_gap(metadata, snapshot)
            return None
    raise CommitUnknownError(
        f"snapshots after {snapshot.id} expire as fast as they are read; commit the batch again",
        path=metadata.paths.snapshot_path(snapshot.id),
        snapshot_id=snapshot.id,
    )


def discard_unreadable(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Delete a snapshot that is not in the history, by `was_bypassed`, if files that it refers to are missing.

    That is so when another process that runs the same batch had committed it, and an expiry removed what both took over from the
    snapshot before, or what the next one replaced.
    returns   True when it was deleted
    cost      one request for each file that the snapshot refers to and the next one does not
    """
    try:
        gone = _missing_files(metadata, snapshot, metadata.load_snapshot(snapshot.id + 1))
    except NotFoundError:
        # The next one expired meanwhile, with this one, or was rolled back, which leaves this one.
        return False
    if not gone:
        return False
    log.warning(
        "snapshot %d was written after that id had been expired, or its expiry did not end: %s is gone; deleting it, its changes "
        "are in the table",
        snapshot.id,
        gone[0],
    )
    metadata.store.delete(metadata.paths.snapshot_path(snapshot.id))
    metadata.forget_snapshot(snapshot.id)
    return True


def _missing_files(metadata: TableMetadata, snapshot: Snapshot, following: Snapshot) -> list[str]:
    """List the missing files of a snapshot; files that the next one refers to as well exist while that exists."""
    paths = metadata.paths
    kept = {m.file_name for m in metadata.data_manifests(following)}
    own = [paths.manifest_path(m.file_name) for m in metadata.data_manifests(snapshot) if m.file_name not in kept]
    if snapshot.index_manifest is not None and snapshot.index_manifest != following.index_manifest:
        own.append(paths.manifest_path(snapshot.index_manifest))
    if snapshot.statistics is not None and snapshot.statistics != following.statistics:
        own.append(paths.statistics_path(snapshot.statistics))
    gone = absent(metadata.store, own)
    if gone:
        return gone
    delta = metadata.load_manifest_list(following.delta_manifest_list, following.delta_manifest_list_size)
    replaced = [data_file_path(metadata, e) for e in metadata.load_manifests(delta) if e.kind is FileKind.DELETE]
    schema = metadata.load_schema(snapshot.schema_id)
    there = {e.file_name for e in metadata.load_index_manifest(following.index_manifest)}
    index = [e for e in metadata.load_index_manifest(snapshot.index_manifest) if e.file_name not in there]
    return absent(metadata.store, [*replaced, *(index_file_path(metadata, schema, e) for e in index)])


def absent(store: ObjectStore, paths: Sequence[str]) -> list[str]:
    """Return those of some paths where no file is; one request each, side by side."""
    return [p for p, there in zip(paths, in_parallel(store.exists, paths), strict=True) if not there]


def _check_gap(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Raise CommitUnknownError when snapshots after one may be missing because a branch is being put in their place.

    Java's fast-forward takes the hint of the newest one away first, then snapshots in any order; the next commit puts the hint.
    """
    if metadata.latest_hint() is None:
        raise CommitUnknownError(
            f"snapshots after {snapshot.id} and the LATEST hint are missing, as during the fast-forward of a branch: commit the "
            "batch again when it has ended, and other batches after it",
            path=metadata.paths.snapshot_path(snapshot.id),
            snapshot_id=snapshot.id,
        )


def _follows(
    metadata: TableMetadata,
    following: Snapshot,
    snapshot: Snapshot,
    data: Sequence[ManifestEntry],
    index: Sequence[IndexEntry],
) -> bool:
    if data:
        return _holds(metadata, following, data)
    new = {e.file_name for e in index if e.kind is FileKind.ADD}
    there = {e.file_name for e in metadata.load_index_manifest(following.index_manifest)}
    if not new <= there and following.index_manifest != snapshot.index_manifest:
        raise CommitUnknownError(
            f"cannot determine whether snapshot {following.id} was committed on this one, or on one that expired before this one "
            "was put: compare what the batch deleted with the table, and commit it again under another id if it is missing",
            path=metadata.paths.snapshot_path(snapshot.id),
            snapshot_id=snapshot.id,
        )
    return True


def _holds(metadata: TableMetadata, following: Snapshot, data: Sequence[ManifestEntry]) -> bool:
    """Return True when the state that a snapshot was committed on has the files that were added, and none of those deleted."""
    name, size = following.base_manifest_list, following.base_manifest_list_size
    keep = of_partitions({e.partition for e in data})
    live = live_files(
        metadata.load_manifests(metadata.load_manifest_list(name, size), keep=keep),
        where=metadata.paths.manifest_path(name),
    )
    delta = entries_of(data)
    there = found_in(delta.column("high"), delta.column("low"), live.column("high"), live.column("low"))
    return bool((there == (delta.column("kind") == np.int8(FileKind.ADD))).all())
