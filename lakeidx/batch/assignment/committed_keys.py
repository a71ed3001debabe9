"""Updates of a key index around the commit of a batch: where each key was, and where it is now.

Both are read again from what the stages before have left, since another process may have written it: of all parts at once, or part
by part in tasks, for index types whose tasks store them or that are notified of shares of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport, SourceFile, StagedPart
from lakeidx.batch.assignment.keyed_batch import read_batch, read_located
from lakeidx.batch.assignment.row_keys import part_items
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.batch.target_files import read_part_targets
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.locations import CommitInfo, Int32s, Int64s, KeyBatch, KeyLocations
from lakeidx.key_index.port import IndexContext, SharedState, ShareUpdate, TagTasks
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import number_partitions
from lakeidx.tasks.routed_rows import Block, RoutedRows, count_shares
from lakeidx.tasks.runner import Runner

_HASH, _OWN, _PARTITION, _BUCKET, _DELETED, _WAS_PARTITION, _WAS_BUCKET = (
    f"lakeidx.{name}" for name in ("hash", "own", "partition", "bucket", "deleted", "was_partition", "was_bucket")
)


class CommittedPart(NamedTuple):
    """A part of the batch.

    source    the landing file that it is taken from by reference
    located   what the index had answered
    targets   where its rows went
    tasks     that placed its rows
    """

    number: int
    part: StagedPart
    source: SourceFile | None
    located: str
    targets: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CommittedKeys:
    """Reads parts; pickles, and its size does not grow with rows.

    staging      where the batch is staged
    partitions   distinct partitions of the batch's targets
    partition    int32[targets] which of them each target is in
    bucket       int32[targets]
    """

    metadata: TableMetadata
    staging: ObjectStore
    schema: TableSchema
    partitions: tuple[bytes, ...]
    partition: Int32s
    bucket: Int32s

    @classmethod
    def of(cls, context: BatchContext, schema: TableSchema, assign: BucketAssignmentReport) -> CommittedKeys:
        """Make it for a batch."""
        partitions, numbers = number_partitions((), (bytes.fromhex(t.partition) for t in assign.targets))
        partition = np.array([numbers[bytes.fromhex(t.partition)] for t in assign.targets], np.int32)
        bucket = np.array([t.bucket for t in assign.targets], np.int32)
        return cls(context.metadata, context.files.store, schema, partitions, partition, bucket)

    def read(self, parts: Sequence[CommittedPart], info: CommitInfo) -> CommitInfo:
        """Return `info` with the keys of parts; rows that are dropped change no location, and are left out."""
        store = self.staging
        keys, retract = read_batch(store, [(p.part, p.source) for p in parts], self.schema)
        was = read_located(store, [(p.located, p.tasks, p.part.rows) for p in parts])
        targets = (read_part_targets(store, p.targets, p.tasks, p.part.rows) for p in parts)
        goes = np.concatenate([np.zeros(0, np.int32), *targets])
        kept = np.flatnonzero(goes >= 0)
        partitions, numbers = number_partitions(was.partitions, self.partitions)
        numbered = np.array([numbers[p] for p in self.partitions], np.int32)[self.partition]
        return replace(
            info,
            batch=_take(keys, kept),
            partition=numbered[goes[kept]],
            bucket=self.bucket[goes[kept]],
            deleted=retract[kept],
            partitions=partitions,
            was=replace(was, bucket=was.bucket[kept], partition=was.partition[kept], file=was.file[kept]),
        )


def committed_parts(ingest: IngestReport, assign: BucketAssignmentReport) -> list[CommittedPart]:
    """Return the parts of a batch whose index keeps something outside the table."""
    paths = zip(part_items(ingest), assign.located_paths, assign.targets_paths, assign.placed_by, strict=True)
    return [CommittedPart(*item, located, targets, tasks) for item, located, targets, tasks in paths]


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks:
    """Functions of the tasks; pickles."""

    keys: CommittedKeys
    info: CommitInfo
    update: ShareUpdate

    def split(self, item: CommittedPart) -> Iterator[RoutedRows]:
        """Map: read one part."""
        rows, tasks = self.update.route(self.keys.read([item], self.info))
        if len(tasks):
            yield RoutedRows(item.number, rows, tasks)

    def combine(self, share: object, blocks: Iterator[Block]) -> object:
        """Reduce: store what one task owns."""
        return self.update.store(share, (b.rows for b in blocks))


def store_locations(
    runner: Runner,
    keys: CommittedKeys,
    parts: Sequence[CommittedPart],
    info: CommitInfo,
    state: SharedState,
    context: IndexContext,
    *,
    label: str,
) -> None:
    """Store a batch's locations in tasks.

    info     the commit, without keys
    errors   what tasks raise that read parts and what the index keeps
    """
    rows = sum(p.part.rows for p in parts)
    tasks = TagTasks(runner, lambda: context, label)
    begun = state.begin_update(info, keys.partitions, context, rows, tasks)
    if begun is None:
        return
    update, shares = begun
    weights = [max(1, rows // len(shares))] * len(shares)
    stored = runner.shuffle(_Tasks(keys, info, update), parts, targets=shares, weights=weights, label=label)
    state.finish_update(update, stored, context, tasks)


@dataclass(frozen=True, slots=True, eq=False)
class _NotifyTasks:
    """Updates an index type with shares of a batch's keys; pickles.

    call     name of its method
    remake   makes what the index works with
    """

    keys: CommittedKeys
    info: CommitInfo
    call: str
    remake: Callable[[], IndexContext]
    tasks: int

    def split(self, item: CommittedPart) -> Iterator[RoutedRows]:
        """Map: read one part; all rows of a key go to one task."""
        info = self.keys.read([item], self.info)
        assert info.batch is not None
        if len(info.batch):
            owners = (info.batch.hashes.view(np.uint32) % self.tasks).astype(np.int32)
            yield RoutedRows(item.number, _rows_of_info(info), owners)

    def combine(self, _task: int, blocks: Iterator[Block]) -> None:
        """Reduce: update the index with the received keys."""
        tables = [b.rows for b in blocks]
        if not tables:
            return
        schema = self.keys.schema
        info = _info_of_rows(self.info, pa.concat_tables(tables), schema)
        with TableIndex.of(schema).open(self.keys.metadata.paths) as locator:
            getattr(locator, self.call)(info, self.remake())


def notify_in_tasks(
    context: BatchContext,
    keys: CommittedKeys,
    parts: Sequence[CommittedPart],
    info: CommitInfo,
    call: str,
    remake: Callable[[], IndexContext],
) -> None:
    """Call a method of an external state in tasks, each with its share of a batch's keys (`lakeidx.key_index.port.ExternalState`).

    info     the commit, without keys
    call     ``prepare_commit``, ``update_locations`` or ``rollback``
    errors   what the method raises, after which the index may have some of the keys only
    """
    rows = sum(p.part.rows for p in parts)
    count = count_shares(rows, context.runner.parallelism)
    tasks = _NotifyTasks(keys, info, call, remake, count)
    context.runner.shuffle(
        tasks,
        parts,
        targets=range(count),
        weights=[max(1, rows // count)] * count,
        label=context.label("key_index"),
    )


def _rows_of_info(info: CommitInfo) -> pa.Table:
    """Return what a commit did to keys as columns."""
    batch, was = info.batch, info.was
    assert batch is not None
    assert was is not None
    coded = {
        _OWN: (batch.partition, batch.partitions),
        _PARTITION: (info.partition, info.partitions),
        _WAS_PARTITION: (was.partition, was.partitions),
    }
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts, pa.binary()))
        for name, (codes, texts) in coded.items()
    }
    plain = {_HASH: batch.hashes, _BUCKET: info.bucket, _DELETED: info.deleted, _WAS_BUCKET: was.bucket}
    own = {name: batch.keys.column(name) for name in batch.keys.column_names}
    return pa.table({**columns, **{name: pa.array(values) for name, values in plain.items()}, **own})


def _info_of_rows(info: CommitInfo, rows: pa.Table, schema: TableSchema) -> CommitInfo:
    """Return the commit with the keys of `_rows_of_info`."""
    joined = rows.unify_dictionaries().combine_chunks()

    def coded(name: str) -> tuple[tuple[bytes, ...], Int32s]:
        column = joined.column(name).chunk(0)
        return tuple(column.dictionary.to_pylist()), column.indices.to_numpy()

    hashes, bucket, was_bucket = (joined.column(name).to_numpy() for name in (_HASH, _BUCKET, _WAS_BUCKET))
    partitions, partition = coded(_OWN)
    names = list(schema.identity_columns)
    types = tuple(schema.field(name).type for name in names)
    batch = KeyBatch(partitions, partition, joined.select(names), types, hashes)
    went, goes = coded(_PARTITION)
    before, came = coded(_WAS_PARTITION)
    none = np.full(len(hashes), -1, np.int32)
    return replace(
        info,
        batch=batch,
        partition=goes,
        bucket=bucket,
        deleted=joined.column(_DELETED).to_numpy(zero_copy_only=False),
        partitions=went,
        was=KeyLocations(bucket=was_bucket, partition=came, partitions=before, file=none),
    )


def _take(batch: KeyBatch, rows: Int64s) -> KeyBatch:
    if len(rows) == len(batch):
        return batch
    return KeyBatch(batch.partitions, batch.partition[rows], batch.keys.take(rows), batch.key_types, batch.hashes[rows])
