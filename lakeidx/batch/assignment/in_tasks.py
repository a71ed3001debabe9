"""Placing of large batches in tasks, each with the keys and the part of the index that it owns.

A map task reads the key columns of a part and sends each row's position, key hash and partition, and its key where the index type
looks at keys, to the task that owns the hash. That task does for its share what one process does for a whole small batch: it
locates the keys, opens and fills only buckets of its own, and writes the targets of its rows. The driver gets figures per target.
Rows themselves do not move here. Each task reads the files of the HASH index for its share.

Index types that read data files get these from tasks, too: a file's keys are read once and sent to the tasks that own them. Where
filters tell files apart they are asked before, by tasks that get the keys a file may have (`lakeidx.batch.assignment.file_checks`).

source   org.apache.paimon.flink.sink.RowDynamicBucketSink, org.apache.paimon.index.HashBucketAssigner, release 1.4.2;
         org.apache.hudi.index.simple.HoodieSimpleIndex, release 1.0.2
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.by_key_index import place_by_key_index
from lakeidx.batch.assignment.file_checks import FoundKeys, batch_partitions, check_files, read_found
from lakeidx.batch.assignment.part_keys import read_part_keys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.placed import Placed
from lakeidx.batch.assignment.room import check_rows_fit
from lakeidx.batch.assignment.routed_keys import (
    PartItem,
    ReceivedKeys,
    is_of_part,
    owners_of,
    part_items,
    rows_to_route,
)
from lakeidx.batch.assignment.shares import place_parts
from lakeidx.batch.assignment.targets import ShareFigures, write_share
from lakeidx.batch.context import BatchContext
from lakeidx.batch.keys import RowKeys
from lakeidx.key_index.joined import FileJoiner, file_of, hashes_of, locate_joined, read_file_keys
from lakeidx.key_index.locations import KeyBatch, KeyLocations, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, TagTasks
from lakeidx.tasks.routed_rows import Block, RoutedRows

_METRICS = "lakeidx.metrics"

#: What a map task reads: a part; a data file, or what was found in one, with its number.
_FileItem = tuple[int, LiveFile | FoundKeys]
_Item = PartItem | _FileItem


@dataclass(frozen=True, slots=True)
class _PlacingTasks:
    """What the tasks do; pickles.

    by_keys     the index type looks at keys
    is_global   a key has one task in all partitions
    first_file  order of what comes of the first data file: after the parts
    rows        of the whole batch
    """

    work: PlaceWork
    by_keys: bool
    is_global: bool
    first_file: int
    rows: int

    def split(self, item: _Item) -> Iterator[RoutedRows]:
        """Map: route the keys of one part or file."""
        if isinstance(item[1], LiveFile | FoundKeys):
            yield from self._split_file(item[0], item[1])
            return
        number, part, source = item
        found = read_part_keys(self.work.staging, source, part, self.work.schema, number, keep=self.by_keys)
        if len(found.keys):
            owners = self._owners(found.keys)
            yield RoutedRows(number, rows_to_route(found.keys, found.retract, found.columns), owners)

    def _owners(self, keys: RowKeys) -> np.ndarray:
        return owners_of(self.work.plan, () if self.is_global else keys.partitions, keys.codes, keys.hashes)

    def _split_file(self, number: int, file: LiveFile | FoundKeys) -> Iterator[RoutedRows]:
        work = self.work
        if isinstance(file, LiveFile):
            context = work.index.context(work.metadata, work.snapshot)
            rows, metrics = read_file_keys(file, context, versions=self.is_global)
        else:
            rows, metrics = read_found(work.staging, file)
        order = self.first_file + 2 * number
        if rows.num_rows:
            names = work.schema.identity_columns
            hashes = hashes_of(rows, names, [work.schema.field(n).type for n in names])
            partition = file_of(rows).partition
            yield RoutedRows(
                order, rows, self._owners(RowKeys((partition,), np.zeros(rows.num_rows, np.int32), hashes))
            )
        counts = {name: count for name, count in metrics.as_dict().items() if count}
        task = np.array([number % work.plan.num_channels], np.int32)
        yield RoutedRows(order + 1, pa.table({_METRICS: [json.dumps(counts)]}), task)

    def combine(self, task: int, blocks: Iterator[Block]) -> ShareFigures:
        """Reduce: place the rows of one task, in batch order.

        errors   InvalidInputError for a share of rows that this process has no memory for
        """
        check_rows_fit(self.work.schema, self.rows, tasks=self.work.plan.num_channels)
        received, of_files = ReceivedKeys(), iter(blocks)
        for block in of_files:
            if not is_of_part(block):
                of_files = chain([block], of_files)
                break
            received.add(block)
        if self.by_keys:
            placed = self._place_keys(received, of_files, task)
        else:
            placed = place_parts(self.work, received.parts, task)
        return write_share(self.work.staging, self.work.directory, placed, task)

    def _place_keys(self, received: ReceivedKeys, of_files: Iterator[Block], task: int) -> Placed:
        batch = received.keyed(self.work.schema)
        # Its own, also where an index stays in the process: what that holds is the driver's.
        with closing(self.work.index.made()) as locator:
            locate = _locator(locator, of_files) if isinstance(locator, FileJoiner) else None
            return place_by_key_index(self.work, batch, locator, task, locate)


def _locator(joiner: FileJoiner, of_files: Iterator[Block]) -> Callable[[KeyBatch, IndexContext], KeyLocations]:
    """Return what locates keys among those of files that were sent."""

    def locate(batch: KeyBatch, context: IndexContext) -> KeyLocations:
        metrics = IndexMetrics()

        def keys() -> Iterator[pa.Table]:
            for block in of_files:
                if _METRICS in block.rows.column_names:
                    metrics.add(IndexMetrics(**json.loads(block.rows.column(_METRICS)[0].as_py())))
                else:
                    yield block.rows

        located = locate_joined(batch, keys(), context, is_global=joiner.is_global)
        located.metrics.add(metrics)
        return located

    return locate


def place_in_tasks(context: BatchContext, ingest: IngestReport, work: PlaceWork) -> Sequence[ShareFigures]:
    """Place all rows of a batch; keys and places of rows stay in the tasks.

    errors   what reading parts, index files and data files raises; InvalidInputError for more rows than tasks have memory for
    """
    locator = work.index.locator
    items: list[_Item] = list(part_items(ingest))
    count, first_file = work.plan.num_channels, len(items)
    if locator is not None and not work.fresh:
        if isinstance(locator, FileJoiner):
            items += enumerate(_files_to_read(context, ingest, work, locator))
        else:
            remake = partial(work.index.context, work.metadata, work.snapshot)
            locator.prepare_tag(remake(), TagTasks(context.runner, remake, context.label("key_state")))
    tasks = _PlacingTasks(work, locator is not None, work.index.is_global, first_file, ingest.rows_staged)
    return context.runner.shuffle(
        tasks.split,
        items,
        tasks.combine,
        targets=range(count),
        # Keys spread evenly; a task whose share is large is to read it block by block.
        weights=[max(1, ingest.rows_staged // count)] * count,
        label=context.label("bucket_assignment"),
    )


def _files_to_read(
    context: BatchContext, ingest: IngestReport, work: PlaceWork, joiner: FileJoiner
) -> Sequence[LiveFile | FoundKeys]:
    wants_partitions = work.snapshot is not None and not joiner.is_global
    partitions = batch_partitions(context, ingest, work) if wants_partitions else ()
    of = None if joiner.is_global else partitions
    if joiner.narrows_files:
        return check_files(context, ingest, work, of)
    return joiner.files_to_join(of, work.index.context(work.metadata, work.snapshot))
