"""What the table's index is told around the commit of a batch.

prepare     before the snapshot is put, unless the batch is in the table already (its writer died after the commit)
committed   when the snapshot is there; told again when the stage is run again, which changes nothing
given_up    when the commit lost a conflict, before the batch is assigned anew: what `prepare` left must not be believed
            under the batch's name

Only indexes that keep something outside the table are told of the batch's keys; those are read again from the staged parts,
since another process may have assigned them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from lakeidx.errors import NotFoundError, UnavailableError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.pipeline.artifacts import AssignReport, IngestReport
from lakeidx.pipeline.assign_tagged import tag_context
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.index_types import index_options, opened_tagger, uses_tagger
from lakeidx.pipeline.tagged_batch import read_batch, read_located
from lakeidx.pipeline.targets import read_targets
from lakeidx.table.changes import CommitRequest, TableChanges
from lakeidx.table.commit import committed_and_expired, find_committed
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path
from lakeidx.tagging.base import CommitInfo, KeyBatch, LiveFile, TagContext, number_partitions
from lakeidx.tagging.options import IndexOptions
from lakeidx.tagging.state import StateTagger

log = logging.getLogger(__name__)


class IndexHooks:
    """One attempt of one batch.

    request   what is to be committed
    """

    def __init__(self, context: BatchContext, assign: AssignReport, request: CommitRequest) -> None:
        self._context = context
        self._assign = assign
        self._request = request
        ingest = context.files.require(IngestReport)
        self._ingest = ingest
        self._schema: TableSchema = context.metadata.schema(ingest.schema_id)
        # Of indexes that keep nothing outside the table only the bloom filters' metadata cache follows commits.
        self._keeps = bool(assign.located_paths)
        options = index_options(self._schema)
        caches = options.index_type in ("bloom", "global-bloom") and options.hoodie_bloom_index_use_metadata
        self._active = uses_tagger(self._schema) and (self._keeps or caches)

    def prepare(self) -> None:
        """Before the snapshot is put.

        errors   UnavailableError when the index does not answer; the batch must not be committed then
        """
        if not self._active or not self._keeps or self._is_in():
            return
        context = self._tag_context(self._base())
        with opened_tagger(self._schema, self._context.paths) as tagger:
            tagger.prepare_commit(self._info, context)

    def committed(self, snapshot_ids: tuple[int, ...]) -> None:
        """The batch is in the table.

        errors   UnavailableError; the stage has to be run again, which tells the index again
        """
        if not self._active or not snapshot_ids:
            return
        metadata = self._context.metadata
        try:
            snapshot: Snapshot | None = metadata.snapshot(snapshot_ids[0])
        except NotFoundError:
            snapshot = metadata.latest_snapshot()
        info = replace(self._info, snapshot_id=snapshot_ids[0], added=self._added(self._request.changes))
        with opened_tagger(self._schema, self._context.paths) as tagger:
            try:
                tagger.update_locations(info, self._tag_context(snapshot))
            except UnavailableError as error:
                if tagger.name != "state":
                    raise
                # A state that is behind is brought up to date by the next batch.
                log.warning("the key state was not told of snapshot %d: %s", snapshot_ids[0], error)

    def given_up(self) -> None:
        """The commit lost a conflict."""
        if not self._active or not self._keeps:
            return
        context = self._tag_context(self._base())
        # The next attempt commits under the same name, so what this one left has to go, whatever the option says.
        raw = {**context.options.raw, "hoodie.index.hbase.rollback.sync": "true"}
        with opened_tagger(self._schema, self._context.paths) as tagger:
            tagger.rollback(self._info, replace(context, options=IndexOptions(raw)))

    def _is_in(self) -> bool:
        metadata = self._context.metadata
        return find_committed(metadata, self._request) is not None or committed_and_expired(metadata, self._request)

    def _base(self) -> Snapshot | None:
        """The newest snapshot: which commits are in the table is asked of it."""
        return self._context.metadata.latest_snapshot()

    def _tag_context(self, snapshot: Snapshot | None) -> TagContext:
        return tag_context(self._context.metadata, self._schema, snapshot)

    @cached_property
    def _info(self) -> CommitInfo:
        context, assign = self._context, self._assign
        info = CommitInfo(
            instant=self._request.commit_user,
            started_ms=context.files.closed_ms(IngestReport),
            base_id=assign.base_snapshot_id,
        )
        if not self._keeps:
            return info
        batch = read_batch(context.metadata, self._ingest, self._schema)
        was = read_located(context.store, assign.located_paths)
        goes = np.concatenate([np.zeros(0, np.int32), *(read_targets(context.store, p) for p in assign.targets_paths)])
        # Rows that are dropped change no location.
        kept = np.flatnonzero(goes >= 0)
        partitions, numbers = number_partitions(was.partitions, (bytes.fromhex(t.partition) for t in assign.targets))
        partition = np.array([numbers[bytes.fromhex(t.partition)] for t in assign.targets], np.int32)
        bucket = np.array([t.bucket for t in assign.targets], np.int32)
        return replace(
            info,
            batch=_take(batch.keys, kept),
            partition=partition[goes[kept]],
            bucket=bucket[goes[kept]],
            deleted=batch.retract[kept],
            partitions=partitions,
            was=replace(was, bucket=was.bucket[kept], partition=was.partition[kept], file=was.file[kept]),
        )

    def _added(self, changes: TableChanges) -> list[LiveFile]:
        return [_live_file(self._context.metadata, e) for e in changes.append if e.kind is FileKind.ADD]


def tell_of_compaction(
    metadata: TableMetadata, schema: TableSchema, snapshot_ids: Sequence[int], changes: TableChanges
) -> None:
    """A compaction is in the table: an index that keeps note of the table's files goes along without reading them.

    One that cannot be reached now, or is behind, finds out by itself when the next batch comes.
    """
    if not uses_tagger(schema) or not snapshot_ids:
        return
    try:
        with opened_tagger(schema, metadata.paths) as tagger:
            if not isinstance(tagger, StateTagger):
                return
            snapshot = metadata.snapshot(snapshot_ids[-1])
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
            tagger.update_locations(info, tag_context(metadata, schema, snapshot))
    except (UnavailableError, NotFoundError) as error:
        log.warning("the key state was not told of a compaction: %s", error)


def _live_file(metadata: TableMetadata, entry: ManifestEntry) -> LiveFile:
    return LiveFile(entry.partition, entry.bucket, data_file_path(metadata, entry), entry.file)


def _take(batch: KeyBatch, rows: np.ndarray) -> KeyBatch:
    if len(rows) == len(batch):
        return batch
    return KeyBatch(batch.partitions, batch.partition[rows], batch.keys.take(rows), batch.key_types, batch.hashes[rows])
