"""Publishes changes as snapshots, with no catalog and no lock.

*Who wins a race.* ``snapshot-N`` is put by put-if-absent: one writer creates it, every other one sees that it exists, folds
the winner's changes into its view, checks for conflicts again and tries N+1.

*A put that timed out.* The snapshot is read back and compared by its random ``uuid``: ours is a success, another one is a lost
race, none means that the put is tried again. Only when reading back fails as well, CommitUnknownError is raised; the next
commit of the same batch finds out by commit user and identifier. Files of a try are deleted only when it is certain that the
try was lost.

*An expired id.* While a writer sleeps, N+1 may be written by another one and expired again; its put would then succeed on a
name that is free but dead. After a put the writer looks whether its snapshot is the head of the chain or has a successor;
if not, it takes the dead snapshot away and tries anew.

*What the store must do.* Put-if-absent must let exactly one of many racing clients win (`lakeidx.storage.probe`). A Java writer
that commits by rename to an object store does not take part in that agreement; see docs/concurrency.md.

source   org.apache.paimon.operation.FileStoreCommitImpl, release 1.4.2 (protocol); put-if-absent, rules 4 and 5 of
         `lakeidx.table.conflicts` and the look after the put are lakeidx's own
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakeidx.codec.binary_row import decode_row, split_arity
from lakeidx.errors import CommitConflictError, CommitUnknownError, NotFoundError, UnavailableError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.paths import NewFileNames
from lakeidx.format.schema import TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot, encode_snapshot
from lakeidx.storage.probe import ensure_safe
from lakeidx.table.changes import CommitRequest, CommitResult, Overwrite
from lakeidx.table.conflicts import (
    bucket_count_conflicts,
    exact_file_conflicts,
    file_conflicts,
    index_conflicts,
    level_overlaps,
    sequence_conflicts,
    writer_conflicts,
)
from lakeidx.table.manifest_merge import merge_manifests
from lakeidx.table.manifest_write import ManifestWriter, combine_index
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, SnapshotView, data_file_path, load_view

log = logging.getLogger(__name__)

_PUT_TRIES = 5


@dataclass(frozen=True, slots=True)
class _Delta:
    """One snapshot's worth of changes."""

    kind: CommitKind
    data: tuple[ManifestEntry, ...]
    index: tuple[IndexEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    overwrite: Overwrite | None = None


def commit_changes(
    metadata: TableMetadata,
    request: CommitRequest,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> CommitResult:
    """Commit a batch: an APPEND (or OVERWRITE) snapshot, then a COMPACT snapshot when there is something compacted.

    returns  ids of the snapshots; `already` when an earlier call had committed the batch
    errors   CommitConflictError (plan again), CommitUnknownError (call again), UnavailableError (back off),
             UnsupportedError for a store that lets two racing conditional puts win
    """
    if not metadata.store.place.startswith("local:"):
        # The kernel keeps this promise on a disk; of an object store it is asked, once per process.
        ensure_safe(metadata.store, metadata.paths.manifest_dir)
    schema = metadata.latest_schema()
    changes = request.changes
    deltas: list[_Delta] = []
    if request.overwrite is not None:
        deltas.append(_Delta(CommitKind.OVERWRITE, changes.append, changes.append_index, (), request.overwrite))
    elif changes.has_append:
        deltas.append(_Delta(_append_kind(changes.append, changes.append_index), changes.append, changes.append_index,
                             changes.append_changelog))  # fmt: skip
    if changes.has_compact:
        deltas.append(_Delta(CommitKind.COMPACT, changes.compact, changes.compact_index, changes.compact_changelog))
    ids: list[int] = []
    attempts = 0
    fresh = False
    for delta in deltas:
        attempt = _Attempt(metadata, schema, request, delta, clock, sleep)
        ids.append(attempt.run())
        attempts += attempt.tries
        fresh = fresh or not attempt.found_before
    return CommitResult(snapshot_ids=tuple(ids), already=bool(ids) and not fresh, attempts=max(attempts, 1))


def find_committed(metadata: TableMetadata, request: CommitRequest, kind: CommitKind | None = None) -> Snapshot | None:
    """The snapshot an earlier try of this commit has put, looked for from the newest back to the base of the batch."""
    latest = metadata.latest_snapshot_id()
    if latest is None:
        return None
    lowest = request.base_snapshot_id or 0
    for snapshot_id in range(latest, lowest, -1):
        try:
            snapshot = metadata.snapshot(snapshot_id)
        except NotFoundError:
            return None
        same = snapshot.commit_user == request.commit_user and snapshot.commit_identifier == request.commit_identifier
        if same and (kind is None or snapshot.commit_kind == kind):
            return snapshot
    return None


def committed_and_expired(metadata: TableMetadata, request: CommitRequest) -> bool:
    """True when the batch must have been committed by a snapshot that is expired by now.

    Snapshots since the batch's base may be gone, so the files tell: a new file of the batch is referenced by a state that
    is still there, or was removed from the store, which only expiry of a committed file does (orphan cleaning leaves the
    files of staged batches alone).
    """
    earliest = metadata.earliest_snapshot_id()
    if earliest is None or earliest <= (request.base_snapshot_id or 0) + 1:
        return False
    # A compaction may add a file again at another level: such a file was there before and tells nothing.
    replaced = {e.file.file_name for e in request.changes.compact if e.kind is FileKind.DELETE}
    added = {e.file.file_name: e for e in request.changes.new_files() if e.file.file_name not in replaced}
    if not added:
        return False
    for snapshot_id in {earliest, metadata.latest_snapshot_id() or earliest}:
        view = load_view(metadata, metadata.snapshot(snapshot_id), partitions=request.changes.partitions())
        if any(e.file.file_name in added for e in view.entries):
            return True
    return any(not metadata.store.exists(data_file_path(metadata, e)) for e in added.values())


def _append_kind(data: Sequence[ManifestEntry], index: Sequence[IndexEntry]) -> CommitKind:
    replaces = any(e.kind is FileKind.DELETE for e in data) or any(e.index_type == DELETION_VECTORS for e in index)
    return CommitKind.OVERWRITE if replaces else CommitKind.APPEND


class _Attempt:
    """Tries to publish one delta until it is in, conflicts, or the retries are used up."""

    def __init__(
        self,
        metadata: TableMetadata,
        schema: TableSchema,
        request: CommitRequest,
        delta: _Delta,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.metadata = metadata
        self.schema = schema
        self.request = request
        self.delta = delta
        self.clock = clock
        self.sleep = sleep
        self.tries = 0
        self.found_before = False
        self.writer = ManifestWriter(metadata.store, metadata.paths, schema, NewFileNames())

    def run(self) -> int:
        options = self.schema.table_options
        delay = options.commit_min_retry_wait / 1000
        limit = options.commit_max_retry_wait / 1000
        while True:
            self.tries += 1
            done = find_committed(self.metadata, self.request, self.delta.kind)
            if done is not None:
                self.found_before = self.tries == 1
                return done.id
            if self.tries == 1 and committed_and_expired(self.metadata, self.request):
                self.found_before = True
                return (self.request.base_snapshot_id or 0) + 1
            try:
                snapshot_id = self._try_once()
            except CommitConflictError:
                # The snapshot we conflict with may be this very batch, put by another process that runs it, too.
                done = find_committed(self.metadata, self.request, self.delta.kind)
                if done is None:
                    raise
                return done.id
            if snapshot_id is not None:
                return snapshot_id
            if self.tries > options.commit_max_retries:
                raise CommitConflictError(
                    f"gave up after {self.tries} tries: other writers were faster each time; raise commit.max-retries "
                    "or let one writer at a time work on the table",
                    path=self.metadata.paths.root,
                )
            self.sleep(delay * (1 + random.random() * 0.2))
            delay = min(delay * 2, limit)

    def _try_once(self) -> int | None:
        latest = self.metadata.latest_snapshot()
        data, index = self._resolve(latest)
        self._check(latest, data)
        snapshot = self._write_metadata(latest, data, index)
        if self._publish(snapshot):
            self.metadata.store.put(self.metadata.paths.latest, str(snapshot.id).encode())
            return snapshot.id
        self.writer.forget()
        return None

    def _resolve(self, latest: Snapshot | None) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        """Entries of this try; an overwrite removes what is live now."""
        overwrite = self.delta.overwrite
        if overwrite is None:
            return list(self.delta.data), list(self.delta.index)
        view = load_view(self.metadata, latest, partitions=overwrite.partitions)
        removed = [replace(e, kind=FileKind.DELETE) for e in view.entries]
        removed_index = [replace(e, kind=FileKind.DELETE) for e in view.index]
        return [*removed, *self.delta.data], [*removed_index, *self.delta.index]

    def _check(self, latest: Snapshot | None, data: Sequence[ManifestEntry]) -> None:
        request = self.request
        touched = request.changes.partitions() | set(request.assigned_on or ())
        if self.delta.overwrite is not None or not touched:
            return
        view = load_view(self.metadata, latest, partitions=touched)
        findings = bucket_count_conflicts(view.entries, data) + file_conflicts(view.entries, data)
        if self.delta.kind is CommitKind.COMPACT:
            findings += level_overlaps(view.entries, data, self._key)
            findings += exact_file_conflicts(view.entries, request.exact_files)
        else:
            findings += self._batch_conflicts(view, data)
            if request.alone_since is not None:
                findings += writer_conflicts(request.alone_since, self._kinds_after(request.alone_since, latest))
        if findings:
            raise CommitConflictError("; ".join(findings), path=self.metadata.paths.root,
                                      snapshot_id=None if latest is None else latest.id)  # fmt: skip

    def _batch_conflicts(self, view: SnapshotView, data: Sequence[ManifestEntry]) -> list[str]:
        findings: list[str] = []
        if self.request.assigned_on is not None:
            live = {p: {b: e.file_name for b, e in buckets.items()} for p, buckets in view.hash_index().items()}
            findings += index_conflicts(self.request.assigned_on, live)
        if self.request.check_sequences and self.schema.primary_keys:
            findings += sequence_conflicts(view.max_sequence_numbers(), data)
        return findings

    def _kinds_after(self, since: int, latest: Snapshot | None) -> dict[int, CommitKind | None]:
        kinds: dict[int, CommitKind | None] = {}
        for snapshot_id in range(since + 1, (latest.id if latest else 0) + 1):
            try:
                kinds[snapshot_id] = self.metadata.snapshot(snapshot_id).commit_kind
            except NotFoundError:
                kinds[snapshot_id] = None
        return kinds

    def _key(self, data: bytes) -> tuple[object, ...]:
        values = decode_row(split_arity(data)[1], self.schema.key_types)
        return tuple((v is not None, v) for v in values)

    def _write_metadata(
        self, latest: Snapshot | None, data: Sequence[ManifestEntry], index: Sequence[IndexEntry]
    ) -> Snapshot:
        options = self.schema.table_options
        writer = self.writer
        before = [] if latest is None else self.metadata.data_manifests(latest)
        base = merge_manifests(
            before,
            target_bytes=options.manifest_target_file_size,
            threshold_bytes=options.manifest_full_compaction_threshold_size,
            min_count=options.manifest_merge_min_count,
            read=self.metadata.manifest,
            write=writer.manifests,
        )
        base_list = writer.manifest_list(base)
        delta_list = writer.manifest_list(writer.manifests(data))
        changelog_list = writer.manifest_list(writer.manifests(self.delta.changelog)) if self.delta.changelog else None
        index_manifest = None if latest is None else latest.index_manifest
        if index:
            old = self.metadata.index_manifest(index_manifest)
            combined = combine_index(old, index, self.schema.bucket_mode)
            index_manifest = writer.index_manifest(combined)
        delta_rows = sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in data)
        watermarks = [w for w in (self.request.watermark, latest.watermark if latest else None) if w is not None]
        return Snapshot(
            uuid=str(uuid.uuid4()),
            id=1 if latest is None else latest.id + 1,
            schema_id=self.schema.id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=delta_list[0],
            delta_manifest_list_size=delta_list[1],
            changelog_manifest_list=changelog_list[0] if changelog_list else None,
            changelog_manifest_list_size=changelog_list[1] if changelog_list else None,
            index_manifest=index_manifest,
            commit_user=self.request.commit_user,
            commit_identifier=self.request.commit_identifier,
            commit_kind=self.delta.kind,
            # Commit times must not go back along the chain, or time travel by timestamp would be ambiguous.
            time_millis=max(int(self.clock() * 1000), latest.time_millis if latest else 0),
            total_record_count=(latest.total_record_count or 0 if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(e.file.row_count for e in self.delta.changelog) if changelog_list else None,
            watermark=max(watermarks) if watermarks else None,
            statistics=latest.statistics if latest and latest.schema_id == self.schema.id else None,
            properties=dict(self.request.properties),
            next_row_id=latest.next_row_id if latest and latest.next_row_id is not None else 0,
        )

    def _publish(self, snapshot: Snapshot) -> bool:
        store, path = self.metadata.store, self.metadata.paths.snapshot(snapshot.id)
        data = encode_snapshot(snapshot)
        for _ in range(_PUT_TRIES):
            try:
                created = store.put_if_absent(path, data)
            except (CommitUnknownError, UnavailableError) as error:
                outcome = self._read_back(snapshot, error)
                if outcome is None:
                    continue
                return outcome
            if created:
                return self._is_on_the_chain(snapshot)
            return self._read_back(snapshot, None) is True
        raise CommitUnknownError(
            "the store does not say whether the snapshot was put; commit the batch again to find out",
            path=path,
            snapshot_id=snapshot.id,
        )

    def _read_back(self, snapshot: Snapshot, error: Exception | None) -> bool | None:
        """True: the snapshot that is there is ours; False: another one is; None: none is there."""
        path = self.metadata.paths.snapshot(snapshot.id)
        try:
            found = self.metadata.snapshot(snapshot.id)
        except NotFoundError:
            return None
        except UnavailableError as second:
            raise CommitUnknownError(
                f"the store did not answer while the snapshot was put ({error}), nor when it was read back ({second})",
                path=path,
                snapshot_id=snapshot.id,
            ) from second
        return found.uuid == snapshot.uuid

    def _is_on_the_chain(self, snapshot: Snapshot) -> bool:
        """False when our id had been used and expired before our put: then the chain goes on above a hole."""
        ids = self.metadata.snapshot_ids()
        above = [i for i in ids if i > snapshot.id]
        if not above or snapshot.id + 1 in above:
            return True
        log.warning("snapshot %d was put after that id had been expired; taking it away and trying again", snapshot.id)
        self.metadata.store.delete(self.metadata.paths.snapshot(snapshot.id))
        self.metadata.forget_snapshot(snapshot.id)
        return False
