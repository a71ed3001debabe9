"""Call the table's key index before, after and on abort of the commit of a batch.

prepare     before the snapshot is put, unless the batch is in the table already (its writer died after the commit)
committed   when the snapshot is there; called again when the stage is run again, which changes nothing
on_abort    when the commit lost a conflict, before the batch is assigned again: what `prepare` left must be ignored
            under the batch's name

Only indexes with state outside the table get the batch's keys; those are read again from the staged parts,
since another process may have assigned them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.batch.assignment.committed_keys import CommittedKeys, committed_parts, notify_in_tasks, store_in_tasks
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import follows_commits, index_context, open_key_index, uses_key_index
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.errors import CommitUnknownError, CorruptFileError, NotFoundError, UnavailableError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.locations import CommitInfo, LiveFile
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, KeyIndex
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.earlier_commit import was_committed
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path

log = logging.getLogger(__name__)


class IndexHooks:
    """One attempt of one batch.

    request   what is to be committed
    """

    def __init__(self, context: BatchContext, assign: BucketAssignmentReport, request: CommitRequest) -> None:
        self._context = context
        self._assign = assign
        self._request = request
        ingest = context.files.require(IngestReport)
        self._ingest = ingest
        self._schema: TableSchema = staged_schema(context.metadata, context.files)
        self._keeps = bool(assign.located_paths)
        self._active = self._keeps or follows_commits(self._schema)
        self._described: CommitInfo | None = None

    def prepare(self) -> None:
        """Prepare the index before the snapshot is written.

        errors   UnavailableError when the index does not answer; the batch must not be committed then
        """
        if not self._active or not self._keeps or was_committed(self._context.metadata, self._request):
            return
        snapshot = self._base()
        with open_key_index(self._schema, self._context.paths) as key_index:
            if not key_index.prepares_commits:
                return
            if self._in_tasks(key_index):
                self._update_in_shares(self._describe(keys=False), "prepare_commit", snapshot)
            else:
                key_index.prepare_commit(self._info, self._index_context(snapshot))

    def committed(self, snapshot_ids: tuple[int, ...]) -> None:
        """Update the index after the batch was committed.

        errors   UnavailableError; the stage has to be run again, which notifies the index again
        """
        if not self._active or not snapshot_ids:
            return
        metadata = self._context.metadata
        snapshot = _own_snapshot(metadata, snapshot_ids[0], self._request.commit_user) or metadata.latest_snapshot()
        with open_key_index(self._schema, self._context.paths) as key_index:
            try:
                self._notify(key_index, snapshot_ids[0], snapshot)
            except (UnavailableError, CommitUnknownError) as error:
                if not key_index.catches_up:
                    raise
                log.warning(
                    "index %s could not be updated to snapshot %d yet: %s", key_index.name, snapshot_ids[0], error
                )

    def _in_tasks(self, key_index: KeyIndex) -> bool:
        """Return True when the batch was placed in tasks, and tasks may update the index."""
        return bool(self._assign.placing_tasks) and key_index.notified_in_shares

    def _update_in_shares(
        self, info: CommitInfo, call: str, snapshot: Snapshot | None, options: Mapping[str, str] | None = None
    ) -> None:
        """Call a method of the index in tasks, each with the keys that are its own; `options`: besides the table's."""
        keys = CommittedKeys.of(self._context, self._schema, self._assign)
        remake = partial(_notify_context, self._context.metadata, self._schema, snapshot, options)
        notify_in_tasks(self._context, keys, committed_parts(self._ingest, self._assign), info, call, remake)

    def _notify(self, key_index: KeyIndex, snapshot_id: int, snapshot: Snapshot | None) -> None:
        stores = bool(self._assign.placing_tasks) and key_index.updates_in_shares
        in_tasks = self._in_tasks(key_index)
        described = self._describe(keys=False) if stores or in_tasks else self._info
        info = replace(described, snapshot_id=snapshot_id, added=self._added(self._request.changes))
        context = self._index_context(snapshot)
        if not stores:
            key_index.update_locations(info, context)
            if in_tasks and self._assign.deletes:
                self._update_in_shares(info, "update_locations", snapshot)
            return
        keys = CommittedKeys.of(self._context, self._schema, self._assign)
        parts = committed_parts(self._ingest, self._assign)
        try:
            store_in_tasks(self._context, keys, parts, info, key_index, context)
        except (CorruptFileError, NotFoundError) as error:
            if not key_index.catches_up:
                raise
            log.warning("index %s was not updated to snapshot %d: %s", key_index.name, snapshot_id, error)

    def on_abort(self) -> None:
        """Roll the index back after the commit lost a conflict."""
        if not self._active or not self._keeps:
            return
        snapshot = self._base()
        # The next attempt commits under the same name, so what this one left has to go, whatever the option says.
        sync = {"hoodie.index.hbase.rollback.sync": "true"}
        with open_key_index(self._schema, self._context.paths) as key_index:
            if not key_index.prepares_commits:
                return
            if self._in_tasks(key_index):
                self._update_in_shares(self._describe(keys=False), "rollback", snapshot, sync)
            else:
                context = _notify_context(self._context.metadata, self._schema, snapshot, sync)
                key_index.rollback(self._info, context)

    def _base(self) -> Snapshot | None:
        """Read the newest snapshot, which shows which commits are in the table."""
        return self._context.metadata.latest_snapshot()

    def _index_context(self, snapshot: Snapshot | None) -> IndexContext:
        return index_context(self._context.metadata, self._schema, snapshot)

    @property
    def _info(self) -> CommitInfo:
        # Not a cached_property, whose lock (Python 3.11) all batches of a process would share while they read.
        if self._described is None:
            self._described = self._describe(keys=True)
        return self._described

    def _describe(self, *, keys: bool) -> CommitInfo:
        context, assign = self._context, self._assign
        info = CommitInfo(
            instant=self._request.commit_user,
            started_ms=context.files.closed_ms(IngestReport),
            base_id=assign.base_snapshot_id,
        )
        if keys and self._keeps:
            keys_of = CommittedKeys.of(context, self._schema, assign)
            return keys_of.read(committed_parts(self._ingest, assign), info)
        return info

    def _added(self, changes: TableChanges) -> list[LiveFile]:
        return [_live_file(self._context.metadata, e) for e in changes.append if e.kind is FileKind.ADD]


def _notify_context(
    metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot | None, options: Mapping[str, str] | None
) -> IndexContext:
    made = index_context(metadata, schema, snapshot)
    return replace(made, options=IndexOptions({**made.options.raw, **options})) if options else made


def _own_snapshot(metadata: TableMetadata, snapshot_id: int, commit_user: str) -> Snapshot | None:
    """Read a snapshot of a commit; None when it has expired, also when another writer has put one on its id since."""
    try:
        found = metadata.load_snapshot(snapshot_id)
    except NotFoundError:
        return None
    return found if found.commit_user == commit_user else None


def on_compaction(
    metadata: TableMetadata, schema: TableSchema, snapshot_ids: Sequence[int], request: CommitRequest
) -> None:
    """Update an index that tracks data files after a compaction, without reading the files.

    One that cannot be reached now, or is behind, finds out by itself when the next batch comes.
    """
    if not uses_key_index(schema) or not snapshot_ids:
        return
    try:
        with open_key_index(schema, metadata.paths) as key_index:
            if not key_index.follows_compactions:
                return
            snapshot = _own_snapshot(metadata, snapshot_ids[-1], request.commit_user)
            if snapshot is None:
                log.warning("the key index is not updated after a compaction: its snapshot has expired")
                return
            changes = request.changes
            added = [e for e in changes.compact if e.kind is FileKind.ADD]
            # A file that only changes its level is removed and added.
            gone = {e.file.file_name for e in changes.compact if e.kind is FileKind.DELETE}
            info = CommitInfo(
                instant=snapshot.commit_user,
                started_ms=snapshot.time_millis,
                snapshot_id=snapshot.id,
                base_id=snapshot.id - 1,
                added=[_live_file(metadata, e) for e in added],
                removed=gone - {e.file.file_name for e in added},
            )
            key_index.update_locations(info, index_context(metadata, schema, snapshot))
    except (UnavailableError, NotFoundError) as error:
        log.warning("the key index could not be updated after a compaction yet: %s", error)


def _live_file(metadata: TableMetadata, entry: ManifestEntry) -> LiveFile:
    return LiveFile(entry.partition, entry.bucket, data_file_path(metadata, entry), entry.file)
