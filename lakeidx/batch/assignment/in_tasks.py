"""Placing of large batches in tasks, each with the keys and the part of the index that it owns.

A map task reads the key columns of a part and sends each row's position, key hash and partition to the task that owns the hash.
That task does for its share what one process does for a whole small batch (`lakeidx.batch.assignment.shares`): it locates the
keys, opens and fills only buckets of its own, and writes the targets of its rows. The driver gets figures per target. Rows
themselves do not move here.

source   org.apache.paimon.flink.sink.RowDynamicBucketSink, org.apache.paimon.index.HashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.batch.assignment.keyed_batch import PartRows
from lakeidx.batch.assignment.part_keys import PartKeys, read_part_keys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.shares import place_parts
from lakeidx.batch.assignment.targets import ShareFigures, write_share
from lakeidx.batch.context import BatchContext
from lakeidx.batch.keys import RowKeys
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.tasks.routed_rows import Block, RoutedRows

_POSITION, _HASH, _PARTITION, _RETRACT = "_position", "_hash", "_partition", "_retract"

PartItem = tuple[int, StagedPart, SourceFile | None]


@dataclass(frozen=True, slots=True)
class _PlacingTasks:
    """What the tasks do; pickles."""

    work: PlaceWork

    def split(self, item: PartItem) -> Iterator[RoutedRows]:
        """Map: route the keys of one part."""
        number, part, source = item
        found = read_part_keys(self.work.metadata, source, part, self.work.schema, number)
        if len(found.keys):
            yield RoutedRows(number, _rows_of(found), self._owners(found.keys))

    def _owners(self, keys: RowKeys) -> NDArray[np.int32]:
        partition_hashes = np.array([hash_words(split_arity(p)[1]) for p in keys.partitions], np.int32)
        return self.work.plan.assigner_of(partition_hashes[keys.codes], keys.hashes)

    def combine(self, task: int, blocks: Iterator[Block]) -> ShareFigures:
        """Reduce: place the rows of one task, in batch order."""
        names: dict[bytes, bytes] = {}
        placed = place_parts(self.work, [_keys_of(block, names) for block in blocks], task)
        return write_share(self.work.metadata.store, self.work.directory, placed, task)


def place_in_tasks(context: BatchContext, ingest: IngestReport, work: PlaceWork) -> Sequence[ShareFigures]:
    """Place all rows of a batch; keys and places of rows stay in the tasks.

    errors    what reading parts and index files raises
    """
    tasks = _PlacingTasks(work)
    count = work.plan.num_channels
    return context.runner.shuffle(
        tasks.split,
        _part_items(ingest),
        tasks.combine,
        targets=range(count),
        # Keys spread evenly; a task whose share is large is to read it block by block.
        weights=[max(1, ingest.rows_staged // count)] * count,
        label=context.label("bucket_assignment"),
    )


def _part_items(ingest: IngestReport) -> list[PartItem]:
    """Return what a map task needs of each part."""
    return [(number, part, ingest.source_of(part)) for number, part in enumerate(ingest.parts)]


def _rows_of(part: PartKeys) -> pa.Table:
    keys = part.keys
    columns = {
        _POSITION: pa.array(np.arange(len(keys), dtype=np.int32)),
        _HASH: pa.array(keys.hashes),
        _PARTITION: _partition_column(keys.codes, keys.partitions),
    }
    if part.retract is not None:
        columns[_RETRACT] = pa.array(part.retract)
    return pa.table(columns)


def _partition_column(codes: NDArray[np.int32], partitions: Sequence[bytes]) -> pa.Array:
    """Return the partitions of rows as a dictionary, which travels compressed."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(partitions, pa.binary()))


def _keys_of(block: Block, names: dict[bytes, bytes]) -> PartKeys:
    """Return the rows of one part that came to a task; partitions without a row are left out.

    names   partitions that came before, each to be held once
    """
    rows = block.rows
    positions, hashes = (rows.column(n).to_numpy().astype(np.int32, copy=False) for n in (_POSITION, _HASH))
    column = rows.column(_PARTITION).combine_chunks()
    codes = np.asarray(column.indices).astype(np.int32, copy=False)
    ranks = np.flatnonzero(np.bincount(codes, minlength=len(column.dictionary))).astype(np.int32)
    partitions = [names.setdefault(p, p) for p in column.dictionary.take(pa.array(ranks)).to_pylist()]
    if len(ranks) < len(column.dictionary):
        number = np.zeros(len(column.dictionary), np.int32)
        number[ranks] = np.arange(len(ranks), dtype=np.int32)
        codes = number[codes]
    retract = None
    if _RETRACT in rows.column_names:
        retract = rows.column(_RETRACT).to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
    return PartKeys(PartRows(block.order, positions), RowKeys(tuple(partitions), codes, hashes), retract, ranks)
