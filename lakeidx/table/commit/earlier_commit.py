"""Finds out whether an earlier try has committed a batch: its snapshot is there, or has been expired since."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping

from lakeidx.errors import CommitConflictError, CommitUnknownError, NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.storage.files import join, parent_of
from lakeidx.table.commit.chain import absent, discard_unreadable, was_bypassed
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.index_files import index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path, load_view

log = logging.getLogger(__name__)


def committed_id(
    metadata: TableMetadata, request: CommitRequest, latest: Snapshot | None, kind: CommitKind | None = None
) -> int | None:
    """Return the id of the snapshot that an earlier try of this commit has put, None when no try has.

    They are looked at from the newest back to the base of the batch. One that the table's history did not continue from (a put on
    an expired id, whose writer died before it looked) is deleted.
    latest   the newest snapshot
    returns  for one that has expired the first id it can have had
    errors   CommitUnknownError
    """
    if latest is None:
        return None
    base, others = request.base_snapshot_id or 0, 0
    for snapshot in _down_to(metadata, latest, base):
        same = snapshot.commit_user == request.commit_user and snapshot.commit_identifier == request.commit_identifier
        if same and (kind is None or snapshot.commit_kind == kind):
            if not _is_stray(metadata, snapshot, latest, request):
                return snapshot.id
            break
        others += 1
    # None has expired when all since the base are there, and are others'.
    missing = others < latest.id - base
    return base + 1 if missing and _committed_and_expired(metadata, request) else None


def _down_to(metadata: TableMetadata, latest: Snapshot, base: int) -> Iterator[Snapshot]:
    """Read the snapshots after the base that are there, the newest first."""
    for snapshot_id in range(latest.id, base, -1):
        try:
            yield metadata.earlier_snapshot(snapshot_id)
        except NotFoundError:
            break
    else:
        return
    # All before it have expired, too, but for one that was put on an expired id.
    for left in reversed([i for i in metadata.listed_snapshot_ids() if base < i < snapshot_id]):
        with contextlib.suppress(NotFoundError):
            yield metadata.load_snapshot(left)


def _is_stray(metadata: TableMetadata, snapshot: Snapshot, latest: Snapshot, request: CommitRequest) -> bool:
    if snapshot.id == latest.id or metadata.has_snapshot(snapshot.id - 1):
        return False
    changes = request.changes
    index = changes.compact_index if snapshot.commit_kind is CommitKind.COMPACT else changes.append_index
    without: bool | None = None
    # An expiry takes the manifests first, and may have stopped then.
    with contextlib.suppress(NotFoundError):
        delta = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        without = was_bypassed(metadata, snapshot, metadata.load_manifests(delta), index)
    if without is None:
        without = not was_in_history(metadata, changes, snapshot, request.files_since_ms)
    if not without:
        discard_unreadable(metadata, snapshot)
        return False
    log.warning("snapshot %d was written after that id had been expired; deleting it", snapshot.id)
    metadata.store.delete(metadata.paths.snapshot_path(snapshot.id))
    metadata.forget_snapshot(snapshot.id)
    return True


def was_committed(metadata: TableMetadata, request: CommitRequest) -> bool:
    """Return True when an earlier try of this commit is, or was, in the table.

    errors   CommitUnknownError
    """
    return committed_id(metadata, request, metadata.latest_snapshot()) is not None


def _committed_and_expired(metadata: TableMetadata, request: CommitRequest) -> bool:
    """Return True when the batch must have been committed by a snapshot that is expired by now.

    Snapshots since the batch's base may be gone, so the files tell: a new file of the batch is referenced by a state that
    is still there, or was removed from the store, which only expiry of a committed file does (orphan cleaning leaves the
    files of staged batches alone). Cleaners of other programs do not know batches, and spare only files of the last day.
    errors   CommitUnknownError when the files are gone and older than that, and no state refers to one
    """
    if not request.tried_before:
        return False
    # A hint may name a snapshot that was put on the expired id of the one it meant.
    earliest = next(iter(metadata.snapshot_ids()), None)
    if earliest is None or earliest <= (request.base_snapshot_id or 0) + 1:
        return False
    added = _added(request.changes)
    return bool(added) and _are_read(metadata, request.changes, added, request.commit_user, request.files_since_ms)


def was_in_history(
    metadata: TableMetadata, changes: TableChanges, snapshot: Snapshot, files_since_ms: int | None = None
) -> bool:
    """Return True when a missing snapshot, or one before a gap, has expired; False when no later snapshot followed it.

    errors   CommitUnknownError when it cannot be determined
    """
    added = _added(changes)
    if not added:
        raise CommitUnknownError(
            "cannot determine whether the snapshot has expired, or was put on an expired id and taken away by another process that "
            "runs the batch: look for what it changed in the table, and run it under another id if that is missing",
            path=metadata.paths.snapshot_path(snapshot.id),
            snapshot_id=snapshot.id,
        )
    return _are_read(metadata, changes, added, snapshot.commit_user, files_since_ms)


def may_plan_again(error: CommitConflictError | CommitUnknownError, changes: TableChanges) -> bool:
    """Return True when a compaction may be planned again after an error.

    Of one that adds no file, as one that moves files to another level, nothing tells whether a snapshot that is gone was in the
    history. If it was, what it replaces is not there any more when it is planned again.
    """
    return isinstance(error, CommitConflictError) or not _added(changes)


def _added(changes: TableChanges) -> dict[str, ManifestEntry]:
    # A compaction may add a file again at another level: such a file was there before and tells nothing.
    replaced = {e.file.file_name for e in changes.compact if e.kind is FileKind.DELETE}
    return {e.file.file_name: e for e in changes.new_files() if e.file.file_name not in replaced}


def _are_read(
    metadata: TableMetadata,
    changes: TableChanges,
    added: Mapping[str, ManifestEntry],
    user: str,
    files_since_ms: int | None,
) -> bool:
    """Return True when a state refers to one of the files, or expiry has removed it after one did.

    A snapshot of the batch itself tells nothing: another process may have put it on an expired id, and one in the history would
    have been found.
    """
    from lakeidx.table.expiration.orphans import DEFAULT_AGE_MS, names_that_are_read

    for snapshot_id in {i for i in (metadata.earliest_snapshot_id(), metadata.latest_snapshot_id()) if i is not None}:
        snapshot = metadata.load_snapshot(snapshot_id)
        if snapshot.commit_user == user:
            continue
        view = load_view(metadata, snapshot, partitions=changes.partitions())
        if any(e.file.file_name in added for e in view.entries):
            return True
    gone = [path for e in added.values() if not metadata.store.exists(path := data_file_path(metadata, e))]
    if gone and (files_since_ms is None or time.time() * 1000 - files_since_ms < DEFAULT_AGE_MS):
        return True
    # Compacted since, and kept for a tag or a branch.
    if not names_that_are_read(metadata, but_by=user).isdisjoint(added):
        return True
    if gone:
        raise CommitUnknownError(
            "cannot determine whether the batch was committed: the snapshots since have expired, and its files are gone, either "
            "compacted and expired with them, or removed as orphans by another program; look for its rows in the table, and run "
            "it under another id if they are missing",
            path=gone[0],
        )
    return False


def missing_files(metadata: TableMetadata, changes: TableChanges) -> list[str]:
    """List the files that a commit would add and that somebody has removed since they were written; one request per file."""
    return absent(metadata.store, added_paths(metadata, metadata.latest_schema(), changes))


def added_paths(metadata: TableMetadata, schema: TableSchema, changes: TableChanges) -> list[str]:
    """Return the paths of all files that changes add: data and changelog files with those beside them, index files."""
    data = (*changes.new_files(), *changes.append_changelog, *changes.compact_changelog)
    index = (e for e in (*changes.append_index, *changes.compact_index) if e.kind is FileKind.ADD)
    paths = [index_file_path(metadata, schema, e) for e in index]
    for entry in data:
        path = data_file_path(metadata, entry)
        paths += [path, *(join(parent_of(path), name) for name in entry.file.extra_files)]
    return paths
