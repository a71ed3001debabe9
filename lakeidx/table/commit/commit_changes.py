"""Publishes changes as snapshots, with no catalog and no lock.

*Who wins a race.* ``snapshot-N`` is put by put-if-absent: one writer creates it, every other one sees that it exists, folds
the winner's changes into its view, checks for conflicts again and tries N+1.

*A put that timed out.* The snapshot is read back and compared by its random ``uuid``: ours is a success, another one is a lost
race, none means that the put is tried again. Only when reading back fails as well, CommitUnknownError is raised; the next
commit of the same batch finds out by commit user and identifier. Files of a try are deleted only when it is certain that the
try was lost.

*An expired id.* While a writer sleeps, N+1 may be written by another one and expired again; its put would then succeed on a
name that is free but dead. After a put, and when an earlier try of the batch is looked for, `lakeidx.table.commit.chain` tells
whether the history continues from the snapshot; if not, it is taken away and the batch is committed anew.

*What the store must do.* Put-if-absent must let exactly one of many racing clients win (`lakeidx.storage.probe`). A Java writer
that commits by rename to an object store does not take part in that agreement; see docs/concurrency.md.

source   org.apache.paimon.operation.FileStoreCommitImpl, release 1.4.2 (protocol); put-if-absent, rules 4, 5 and 10 of
         this package and the look after the put are lakeidx's own
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from lakeidx.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    TableReplacedError,
    UnavailableError,
)
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import check_use
from lakeidx.format.snapshot import CommitKind, Snapshot, encode_hint, encode_snapshot
from lakeidx.options.features import Use
from lakeidx.table.commit.chain import discard_unreadable, was_bypassed
from lakeidx.table.commit.changes import CommitRequest, CommitResult, Overwrite, TableChanges
from lakeidx.table.commit.conflicts import (
    bucket_count_conflicts,
    changed_buckets,
    file_conflicts,
    index_file_conflicts,
    sequence_conflicts,
    writer_conflicts,
)
from lakeidx.table.commit.earlier_commit import committed_id, missing_files, was_in_history
from lakeidx.table.commit.manifest_write import ManifestWriter, combine_index
from lakeidx.table.entries import Entries
from lakeidx.table.entry_decoder import entries_of
from lakeidx.table.entry_kernels import found_in
from lakeidx.table.metadata import TableMetadata, is_same
from lakeidx.table.view import DELETION_VECTORS, SnapshotView, load_view

if TYPE_CHECKING:
    from lakeidx.table.commit.hash_conflicts import AddedHashes

#: How often a try that follows a lost one reads what came while it was reading.
_CATCH_UPS = 5
log = logging.getLogger(__name__)
_PUT_TRIES = 5
_TRIES = 5


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
    schema: TableSchema | None = None,
    sleep: Callable[[float], None] = time.sleep,
    on_lost: Callable[[int], bool] | None = None,
) -> CommitResult:
    """Commit a batch: an APPEND (or OVERWRITE) snapshot, then a COMPACT snapshot when there is something compacted.

    schema   the table's newest one, when the caller has just read it
    on_lost  called with the number of races that a snapshot has lost to others; True: they wait, so the next try comes soon
    returns  ids of the snapshots; `already` when another call, earlier or beside this one, has committed the batch
    errors   CommitConflictError (plan again), InvalidInputError for another number of buckets, CommitUnknownError (call again),
             UnavailableError (back off), UnsupportedError for a store that lets two racing conditional puts win
    """
    if not metadata.store.place.startswith("local:"):
        # The kernel keeps this promise on a disk; of an object store it is asked, once per process.
        from lakeidx.storage.probe import ensure_safe

        ensure_safe(metadata.store, metadata.paths.manifest_dir)
    schema = schema or metadata.latest_schema()
    if request.schema is not None and request.schema != schema:
        raise CommitConflictError(
            f"the table has schema {schema.id} now, the changes were planned with schema {request.schema.id}"
            f"{', another of that id' if request.schema.id == schema.id else ''}",
            path=metadata.paths.root,
        )
    with_iceberg = schema.table_options.writes_iceberg
    if with_iceberg:
        from lakeidx.table.iceberg.publish import check_publishable, publish_iceberg

        check_publishable(metadata, schema)
    changes = request.changes
    check_use(
        schema, Use.COMPACT if not changes.has_append and request.overwrite is None else Use.WRITE, metadata.paths.root
    )
    deltas: list[_Delta] = []
    if request.overwrite is not None:
        from lakeidx.table.commit.overwrite_upgrade import upgrade_overwrite

        data = upgrade_overwrite(changes.append, schema) if not changes.has_compact else changes.append
        deltas.append(_Delta(CommitKind.OVERWRITE, data, changes.append_index, (), request.overwrite))
    elif changes.has_append or request.even_empty is CommitKind.APPEND:
        kind = CommitKind.OVERWRITE if request.replaces else _append_kind(changes.append, changes.append_index)
        deltas.append(_Delta(kind, changes.append, changes.append_index, changes.append_changelog))
    if changes.has_compact or request.even_empty is CommitKind.COMPACT:
        deltas.append(_Delta(CommitKind.COMPACT, changes.compact, changes.compact_index, changes.compact_changelog))
    ids: list[int] = []
    fresh = False
    for delta in deltas:
        attempt = _Attempt(metadata, schema, request, delta, sleep, on_lost)
        ids.append(attempt.run())
        if with_iceberg:
            publish_iceberg(metadata, schema, ids[-1])
        fresh = fresh or not attempt.found_before
    return CommitResult(snapshot_ids=tuple(ids), already=bool(ids) and not fresh)


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
        sleep: Callable[[float], None],
        on_lost: Callable[[int], bool] | None,
    ) -> None:
        self.on_lost = on_lost
        self.metadata = metadata
        self.schema = schema
        self.request = request
        self.delta = delta
        self.sleep = sleep
        self.tries = 0
        self.found_before = False
        self.follows: str | None = None
        self.added: AddedHashes | None = None
        self.writer = ManifestWriter(metadata, schema, NewFileNames())

    def run(self) -> int:
        options = self.schema.table_options
        # Who won has committed just now, so the first retry comes at once; who loses again is one of many.
        least, delay = options.commit_min_retry_wait / 1000, 0.0
        others_wait = False
        limit = options.commit_max_retry_wait / 1000
        while True:
            self.tries += 1
            latest = self.metadata.latest_snapshot() if self.tries == 1 else self._caught_up()
            done = self._done(self.request if self.tries == 1 else self._maybe_tried, latest)
            if done is not None:
                self.found_before = True
                return done
            try:
                snapshot_id = self._try_once(latest)
            except InvalidInputError:
                self.writer.forget()
                raise
            except CommitConflictError:
                self.writer.forget()
                # The snapshot we conflict with may be this very batch, put by another process that runs it, too.
                done = self._done(self._maybe_tried, self.metadata.latest_snapshot())
                if done is None:
                    raise
                self.found_before = True
                return done
            except NotFoundError:
                self.writer.forget()
                # The snapshot it was to follow may have expired: then there is a newer one.
                latest = self.metadata.latest_snapshot()
                if latest is None or latest.identity == self.follows:
                    raise
                snapshot_id = None
            if snapshot_id is not None:
                return snapshot_id
            if self.tries > options.commit_max_retries:
                raise CommitConflictError(
                    f"gave up after {self.tries} tries: other writers committed first each time; raise commit.max-retries "
                    "or run one writer at a time on the table",
                    path=self.metadata.paths.root,
                )
            if not others_wait and self.on_lost is not None and self.on_lost(self.tries):
                # All the shorter, the less they wait; who does not know that others wait goes on committing.
                others_wait, delay = True, 0.0
            self.sleep(delay * (1 + random.random() * 0.2))  # noqa: S311 - jitter
            delay = min(max(delay * 2, least), limit)

    @property
    def _maybe_tried(self) -> CommitRequest:
        """The request once others may have committed it, which run the same batch."""
        return replace(self.request, tried_before=True)

    def _done(self, request: CommitRequest, latest: Snapshot | None) -> int | None:
        """Return the id of the snapshot that committed the changes, also of one that has expired; None when none did."""
        # No snapshot has come since the one that the changes were planned on.
        if latest is None or latest.id <= (request.base_snapshot_id or 0):
            return None
        return committed_id(self.metadata, request, latest, self.delta.kind)

    def _try_once(self, latest: Snapshot | None) -> int | None:
        self.follows = None if latest is None else latest.identity
        data, index = self._resolve(latest)
        delta = entries_of(data)
        self._check(latest, data, delta)
        snapshot = self._write_metadata(latest, data, delta, index)
        if self._publish(snapshot, latest, data, index):
            return snapshot.id
        self.writer.forget()
        return None

    def _caught_up(self) -> Snapshot | None:
        """Return the newest snapshot when what a try reads of it is at hand.

        What others committed since the last try may take longer to read than they take to commit once more: a try that began with
        that would lose again, and have more to read after each longer wait.
        """
        latest = self.metadata.latest_snapshot()
        for _ in range(_CATCH_UPS):
            # It may have expired meanwhile: then there is a newer one, or the try says what is missing.
            with contextlib.suppress(NotFoundError):
                load_view(self.metadata, latest, partitions=self._touched)
            before, latest = latest, self.metadata.latest_snapshot()
            if latest is None or before is None or latest.identity == before.identity:
                break
        return latest

    @property
    def _touched(self) -> set[bytes]:
        """The partitions that the changes are in, or were planned on."""
        return self.request.changes.partitions() | set(self.request.assigned_on or ())

    def _resolve(self, latest: Snapshot | None) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        """Resolve the entries of this try; an overwrite removes what is live now."""
        overwrite = self.delta.overwrite
        if overwrite is None:
            return list(self.delta.data), list(self.delta.index)
        view = load_view(self.metadata, latest, partitions=overwrite.partitions)
        removed = [replace(e, kind=FileKind.DELETE) for e in view.entries]
        removed_index = [replace(e, kind=FileKind.DELETE) for e in view.index]
        return [*removed, *self.delta.data], [*removed_index, *self.delta.index]

    def _check(self, latest: Snapshot | None, data: Sequence[ManifestEntry], delta: Entries) -> None:
        request, kind = self.request, self.delta.kind
        if self.delta.overwrite is not None:
            return
        findings = self._entry_conflicts(latest, data, delta) if self._touched else []
        if request.alone_since is not None and kind is not CommitKind.COMPACT:
            findings += writer_conflicts(request.alone_since, self._kinds_after(request.alone_since, latest))
        if findings:
            raise CommitConflictError("; ".join(findings), path=self.metadata.paths.root,
                                      snapshot_id=None if latest is None else latest.id)  # fmt: skip

    def _entry_conflicts(self, latest: Snapshot | None, data: Sequence[ManifestEntry], delta: Entries) -> list[str]:
        request, touched = self.request, self._touched
        view = load_view(self.metadata, latest, partitions=touched)
        live = view.entries
        counts = bucket_count_conflicts(live.total_buckets(), data)
        if counts and self.delta.kind is not CommitKind.COMPACT:
            # Planned again it would be the same: the batch is written for the number in its schema.
            raise InvalidInputError(counts[0], path=self.metadata.paths.root)
        same = found_in(live.column("high"), live.column("low"), delta.column("high"), delta.column("low"))
        findings = counts + file_conflicts(live.select(same), data)
        findings += index_file_conflicts(view.index, self.delta.index)
        if self.delta.kind is CommitKind.COMPACT:
            from lakeidx.table.commit.compaction_conflicts import compaction_conflicts

            findings += compaction_conflicts(view, data, request, self.schema.key_types)
        else:
            findings += self._batch_conflicts(view, data)
        return findings

    def _batch_conflicts(self, view: SnapshotView, data: Sequence[ManifestEntry]) -> list[str]:
        findings: list[str] = []
        if self.request.assigned_on is not None:
            index = view.hash_index()
            names = {p: {b: e.file_name for b, e in buckets.items()} for p, buckets in index.items()}
            changed = changed_buckets(self.request.assigned_on, names)
            if changed:
                touched = None if self.request.by_partition else self.request.changes.buckets()
                # A bucket that the batch touches is a finding, so those that are left are all of others.
                from lakeidx.table.commit.hash_conflicts import AddedHashes, index_conflicts

                self.added = self.added or AddedHashes(self.metadata, self.schema, self.delta.index)
                findings += index_conflicts(changed, touched) or self.added.conflicts(changed, index)
        if self.request.check_sequences and self.schema.primary_keys:
            findings += sequence_conflicts(view.max_sequence_numbers(), data)
        return findings

    def _kinds_after(self, since: int, latest: Snapshot | None) -> dict[int, CommitKind | None]:
        kinds: dict[int, CommitKind | None] = {}
        for snapshot_id in range(since + 1, (latest.id if latest else 0) + 1):
            try:
                kinds[snapshot_id] = self.metadata.earlier_snapshot(snapshot_id).commit_kind
            except NotFoundError:
                kinds[snapshot_id] = None
        return kinds

    def _write_metadata(
        self, latest: Snapshot | None, data: Sequence[ManifestEntry], delta: Entries, index: Sequence[IndexEntry]
    ) -> Snapshot:
        writer = self.writer
        before = [] if latest is None else self.metadata.data_manifests(latest)
        base_list = writer.write_manifest_list(writer.merge_manifests(before))
        delta_list = writer.write_manifest_list(writer.write_manifests(delta))
        changelog_list = (
            writer.write_manifest_list(writer.write_manifests(self.delta.changelog)) if self.delta.changelog else None
        )
        index_manifest = None if latest is None else latest.index_manifest
        if index:
            old = self.metadata.load_index_manifest(index_manifest)
            index_manifest = writer.write_index_manifest(combine_index(old, index, self.schema.bucket_mode))
        delta_rows = sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in data)
        watermarks = [w for w in (self.request.watermark, latest.watermark if latest else None) if w is not None]
        return Snapshot(
            uuid=str(uuid4()),
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
            time_millis=max(int(time.time() * 1000), latest.time_millis if latest else 0),
            total_record_count=(latest.total_record_count or 0 if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(e.file.row_count for e in self.delta.changelog) if changelog_list else None,
            watermark=max(watermarks) if watermarks else None,
            statistics=latest.statistics if latest and latest.schema_id == self.schema.id else None,
            properties=dict(self.request.properties),
            operation=None if self.delta.kind is CommitKind.COMPACT else self.request.operation,
            next_row_id=latest.next_row_id if latest and latest.next_row_id is not None else 0,
        )

    def _publish(
        self, snapshot: Snapshot, latest: Snapshot | None, data: Sequence[ManifestEntry], index: Sequence[IndexEntry]
    ) -> bool:
        """Put a snapshot, and name it in the hint; False when another writer was faster: then it is made again on the newest one.

        latest        the one it was made on
        data, index   what it changes
        errors        CommitConflictError, CommitUnknownError
        """
        store, path = self.metadata.store, self.metadata.paths.snapshot_path(snapshot.id)
        content = encode_snapshot(snapshot)
        self.writer.finish()
        last: Exception | None = None
        for _ in range(_PUT_TRIES):
            try:
                created = store.put_if_absent(path, content)
            except (CommitUnknownError, UnavailableError) as error:
                outcome = _read_back(self.metadata, snapshot, error)
                if outcome is None:
                    last = error
                    continue
                created = outcome
            # A store may say that there is one already when it answers the second try of a put that had been done.
            if not created and not _read_back(self.metadata, snapshot, None):
                return False
            return self._is_on_the_chain(snapshot, latest, data, index, content)
        raise CommitUnknownError(
            "the store cannot tell whether the snapshot was written; commit the batch again to find out",
            path=path,
            snapshot_id=snapshot.id,
        ) from last

    def _is_on_the_chain(
        self,
        snapshot: Snapshot,
        latest: Snapshot | None,
        data: Sequence[ManifestEntry],
        index: Sequence[IndexEntry],
        content: bytes,
    ) -> bool:
        """Return False when the snapshot does not continue the history it was made for; it is removed again then.

        True as well when the history has the changes by another process that runs the same batch.
        """
        metadata, changes = self.metadata, self.request.changes
        if latest is not None and is_same(metadata, latest):
            metadata.append(snapshot, latest, content)
            _name_newest(metadata, snapshot.id)
            return True
        try:
            metadata.latest_schema()
        except TableReplacedError:
            metadata.store.delete(metadata.paths.snapshot_path(snapshot.id))
            raise
        without = was_bypassed(metadata, snapshot, data, index)
        if without is None:
            # What is still there stands before a gap, and was put just now.
            without = metadata.has_snapshot(snapshot.id) or not was_in_history(metadata, changes, snapshot)
        if without:
            why = "after that id had been expired"
        elif latest is None or not _was_rolled_back(metadata, latest):
            if not discard_unreadable(metadata, snapshot):
                if latest is None:
                    metadata.append(snapshot, None, content)
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
        _check_own_files(metadata, changes)
        return False


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


def put_newest_hint(metadata: TableMetadata, newest: int) -> None:
    """Name a snapshot in the hint; the newest one there is when that one has expired before the hint was there.

    cost   two requests
    """
    for _ in range(_TRIES):
        # One that a power cut took, or emptied, is passed over by readers: the listing tells.
        metadata.store.put(metadata.paths.latest, encode_hint(newest))
        if metadata.has_snapshot(newest):
            return
        newest = max(metadata.listed_snapshot_ids(), default=newest)


def renew_passed_hint(metadata: TableMetadata, oldest: int) -> None:
    """Name the newest snapshot in a hint that names one of those that have just expired.

    oldest   the first snapshot that has not expired
    cost     one request; three more where the hint was late
    """
    hint = metadata.latest_hint()
    # None: a branch is being put in the place of snapshots.
    if hint is not None and hint < oldest:
        put_newest_hint(metadata, max(metadata.listed_snapshot_ids(), default=oldest))
