"""What a key index is told of a batch around its commit: where each key was, and where it went.

Both are read again from what the stages before have left, since another process may have written it: of all parts at once, or part
by part in tasks, for index types whose tasks store them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport, SourceFile, StagedPart
from lakeidx.batch.assignment.keyed_batch import read_batch, read_located, sourced_parts
from lakeidx.batch.context import BatchContext
from lakeidx.batch.target_files import read_part_targets, tasks_of_part
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.locations import CommitInfo, Int32s, Int64s, KeyBatch, number_partitions
from lakeidx.key_index.port import IndexContext, KeyIndex, ShareUpdate
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.routed_rows import Block, RoutedRows

#: Rows of a batch that a task holds.
_TASK_ROWS = 1_000_000


class ToldPart(NamedTuple):
    """A part of the batch.

    source    the landing file that it is taken from by reference
    located   what the index had answered
    targets   where its rows went
    tasks     that placed its rows; None: one process placed the batch
    """

    number: int
    part: StagedPart
    source: SourceFile | None
    located: str
    targets: str
    tasks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class ToldKeys:
    """Reads parts; pickles, and holds nothing that grows with rows.

    partitions   distinct partitions of the batch's targets
    partition    int32[targets] which of them each target is in
    bucket       int32[targets]
    """

    metadata: TableMetadata
    schema: TableSchema
    partitions: tuple[bytes, ...]
    partition: Int32s
    bucket: Int32s

    @classmethod
    def of(cls, metadata: TableMetadata, schema: TableSchema, assign: BucketAssignmentReport) -> ToldKeys:
        """Make it for a batch."""
        partitions, numbers = number_partitions((), (bytes.fromhex(t.partition) for t in assign.targets))
        partition = np.array([numbers[bytes.fromhex(t.partition)] for t in assign.targets], np.int32)
        return cls(metadata, schema, partitions, partition, np.array([t.bucket for t in assign.targets], np.int32))

    def read(self, parts: Sequence[ToldPart], info: CommitInfo) -> CommitInfo:
        """Return `info` with the keys of parts; rows that are dropped change no location, and are left out."""
        store = self.metadata.store
        batch = read_batch(self.metadata, [(p.part, p.source) for p in parts], self.schema)
        placed = [p.tasks for p in parts if p.tasks is not None]
        was = read_located(store, [p.located for p in parts], placed, [p.part.rows for p in parts])
        targets = (read_part_targets(store, p.targets, p.tasks, p.part.rows) for p in parts)
        goes = np.concatenate([np.zeros(0, np.int32), *targets])
        kept = np.flatnonzero(goes >= 0)
        partitions, numbers = number_partitions(was.partitions, self.partitions)
        numbered = np.array([numbers[p] for p in self.partitions], np.int32)[self.partition]
        return replace(
            info,
            batch=_take(batch.keys, kept),
            partition=numbered[goes[kept]],
            bucket=self.bucket[goes[kept]],
            deleted=batch.retract[kept],
            partitions=partitions,
            was=replace(was, bucket=was.bucket[kept], partition=was.partition[kept], file=was.file[kept]),
        )


def told_parts(ingest: IngestReport, assign: BucketAssignmentReport) -> list[ToldPart]:
    """Return the parts of a batch whose index keeps something outside the table."""
    paths = zip(sourced_parts(ingest), assign.located_paths, assign.targets_paths, strict=True)
    return [
        ToldPart(number, part, source, located, targets, tasks_of_part(assign.placing_tasks, number))
        for number, ((part, source), located, targets) in enumerate(paths)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks:
    """What the tasks do; pickles."""

    keys: ToldKeys
    info: CommitInfo
    update: ShareUpdate

    def split(self, item: ToldPart) -> Iterator[RoutedRows]:
        """Map: read one part."""
        rows, tasks = self.update.route(self.keys.read([item], self.info))
        if len(tasks):
            yield RoutedRows(item.number, rows, tasks)

    def store(self, share: object, blocks: Iterator[Block]) -> object:
        """Reduce: store what one task owns."""
        return self.update.store(share, (b.rows for b in blocks))


def store_in_tasks(
    context: BatchContext,
    keys: ToldKeys,
    parts: Sequence[ToldPart],
    info: CommitInfo,
    key_index: KeyIndex,
    index_context: IndexContext,
) -> None:
    """Store a batch's locations in tasks.

    info     the commit, without keys
    errors   what tasks raise that read parts and what the index keeps
    """
    rows = sum(p.part.rows for p in parts)
    count = max(context.runner.parallelism, rows // _TASK_ROWS)
    begun = key_index.begin_update(info, keys.partitions, index_context, count) if parts else None
    if begun is None:
        return
    update, shares = begun
    tasks = _Tasks(keys, replace(info, added=()), update)
    stored = context.runner.shuffle(
        tasks.split,
        parts,
        tasks.store,
        targets=shares,
        weights=[max(1, rows // len(shares))] * len(shares),
        label=context.label("key_state"),
    )
    key_index.finish_update(stored, index_context)


def _take(batch: KeyBatch, rows: Int64s) -> KeyBatch:
    if len(rows) == len(batch):
        return batch
    return KeyBatch(batch.partitions, batch.partition[rows], batch.keys.take(rows), batch.key_types, batch.hashes[rows])
