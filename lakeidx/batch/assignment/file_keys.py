"""Keys of data files for the tasks that place a batch, of index types that find keys there.

A map task reads the keys of a data file and sends each to the task that places rows of its hash. Types whose filters tell files
apart (`bloom`, `global-bloom`) ask them before: a map task finds for the keys of a part the files that may have them, and sends
each key to every one of them. The task of a file asks its filter, reads the keys that the filter passes, and writes those that are
there, ``found-<file>.arrow``; large files weigh more, so tasks are even. Then these files are read in the place of data files.

source   org.apache.hudi.index.simple.HoodieSimpleIndex, org.apache.hudi.index.bloom.SparkHoodieBloomIndexHelper, release 1.0.2
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.placement import PlaceWork
from lakeidx.batch.assignment.row_keys import PartItem, RowKeys, part_items, partition_codes, read_part_keys
from lakeidx.batch.context import BatchContext
from lakeidx.batch.parts import read_part
from lakeidx.codec.gather import take_rows
from lakeidx.errors import CorruptFileError, InternalError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.key_index.joined import (
    AskedKeys,
    FileJoiner,
    file_of,
    hashes_of,
    locate_joined,
    matched_keys,
    read_file_keys,
)
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import KeyBatch, KeyLocations, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.routed_rows import Block, RoutedRows

_METRICS = "lakeidx.metrics"


def _batch_partitions(context: BatchContext, ingest: IngestReport, work: PlaceWork) -> tuple[bytes, ...]:
    """Return the distinct partitions of a batch; only partition columns are read, in tasks."""
    if not work.schema.partition_keys:
        return (EMPTY_ROW,)
    label = context.label("bucket_assignment")
    found = context.runner.map(partial(_partitions_of, work), part_items(ingest), label=label)
    return tuple(dict.fromkeys(p for of_part in found for p in of_part))


def _partitions_of(work: PlaceWork, item: PartItem) -> tuple[bytes, ...]:
    _, part, source = item
    table = read_part(work.staging, source, part, work.schema, work.schema.partition_keys)
    return partition_codes(table, work.schema.partition_keys, work.schema.partition_types)[0]


@dataclass(frozen=True)
class _Checks:
    """Functions of the tasks; pickles, without what a process has loaded.

    partitions   of the files; None: all
    count        of files, in the order of the view
    """

    work: PlaceWork
    partitions: tuple[bytes, ...] | None
    count: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _Checks, (self.work, self.partitions, self.count)

    @cached_property
    def _table(self) -> tuple[IndexContext, Sequence[LiveFile]]:
        """The table's view and its files, loaded once in a task, however many parts it is given."""
        work = self.work
        context = work.index.context(work.metadata, work.snapshot)
        files = context.view.files(self.partitions)
        if len(files) != self.count:
            raise InternalError(
                f"the snapshot has {len(files)} files here, and {self.count} where the batch was planned"
            )
        return context, files

    def split(self, item: PartItem) -> Iterator[RoutedRows]:
        """Map: send the keys of a part to the files that may have them."""
        number, part, source = item
        work = self.work
        found = read_part_keys(work.staging, source, part, work.schema, number, keep=True)
        if not len(found.keys) or found.columns is None:
            return
        context, files = self._table
        names = list(work.schema.identity_columns)
        types = tuple(work.schema.field(n).type for n in names)
        columns = found.columns.select(names).combine_chunks()
        batch = KeyBatch(found.keys.partitions, found.keys.codes, columns, types, found.keys.hashes)
        candidates = _joiner(work).candidates(batch, files, context)
        if candidates is None:
            raise InternalError("this index type does not narrow files")
        rows = [candidates.order[a:b] for a, b in zip(candidates.starts, candidates.stops, strict=True)]
        targets = np.repeat(np.arange(len(files), dtype=np.int32), candidates.counts)
        yield RoutedRows(number, take_rows(columns, np.concatenate([np.zeros(0, np.int64), *rows])), targets)

    def combine(self, numbered: tuple[int, LiveFile], blocks: Iterator[Block]) -> int:
        """Reduce: check the keys of one file, and write those it has; returns how many."""
        number, file = numbered
        work = self.work
        names = list(work.schema.identity_columns)
        types = tuple(work.schema.field(n).type for n in names)
        metrics, keys = IndexMetrics(files=1), [b.rows for b in blocks]
        empty = pa.schema([work.schema.arrow_schema.field(n) for n in names]).empty_table()
        columns = pa.concat_tables(keys or [empty]).combine_chunks()
        batch = KeyBatch(
            (file.partition,), np.zeros(columns.num_rows, np.int32), columns, types, hashes_of(columns, names, types)
        )
        context = work.index.context(work.metadata, work.snapshot)
        metrics.files_pruned += not len(batch)
        found = _joiner(work).check_file(AskedKeys(batch, KeySet(batch.codes)), file, context)
        metrics.add(found.metrics)
        _write_found(work.staging, _path(work, number), matched_keys(file, batch, found), metrics)
        return len(found.key)


def _check_files(
    context: BatchContext, ingest: IngestReport, work: PlaceWork, partitions: tuple[bytes, ...] | None
) -> Sequence[str]:
    """Find in tasks which files of some partitions (None: of all) have which keys of a batch; return the paths of the answers."""
    files = work.index.context(work.metadata, work.snapshot).view.files(partitions)
    tasks = _Checks(work, partitions, len(files))
    context.runner.shuffle(
        tasks,
        part_items(ingest),
        targets=list(enumerate(files)),
        weights=[file.meta.row_count for file in files],
        label=context.label("bucket_assignment"),
    )
    return [_path(work, number) for number in range(len(files))]


def _joiner(work: PlaceWork) -> FileJoiner:
    locator = work.index.locator
    if not isinstance(locator, FileJoiner):
        raise InternalError(f"index type {work.index.name} does not join files")
    return locator


def _path(work: PlaceWork, number: int) -> str:
    return f"{work.directory}/found-{number:06d}.arrow"


def _write_found(store: ObjectStore, path: str, rows: pa.Table, metrics: IndexMetrics) -> None:
    counts = {name: count for name, count in metrics.as_dict().items() if count}
    rows = rows.replace_schema_metadata(
        {**(rows.schema.metadata or {}), _METRICS.encode(): json.dumps(counts).encode()}
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    store.put(path, sink.getvalue().to_pybytes())


def _read_found(store: ObjectStore, path: str) -> tuple[pa.Table, IndexMetrics]:
    """Read the keys that were found in a file, and the metrics of finding them.

    errors   CorruptFileError
    """
    try:
        with pa.ipc.open_file(pa.BufferReader(store.get(path))) as reader:
            rows = reader.read_all()
        metadata = dict(rows.schema.metadata or {})
        metrics = IndexMetrics(**json.loads(metadata.pop(_METRICS.encode())))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"the file of found keys cannot be read: {error}", path=path) from error
    return rows.replace_schema_metadata(metadata), metrics


def files_to_read(
    context: BatchContext, ingest: IngestReport, work: PlaceWork, joiner: FileJoiner
) -> Sequence[LiveFile | str]:
    """Return what keys are read from: data files, or what was found in each of them."""
    wants_partitions = work.snapshot is not None and not joiner.is_global
    partitions = _batch_partitions(context, ingest, work) if wants_partitions else ()
    of = None if joiner.is_global else partitions
    if joiner.narrows_files:
        return _check_files(context, ingest, work, of)
    return joiner.files_to_join(of, work.index.context(work.metadata, work.snapshot))


def send_file_keys(work: PlaceWork, number: int, file: LiveFile | str, *, after: int) -> Iterator[RoutedRows]:
    """Map: send the keys of one file to the tasks that own them, and what finding them took to one task.

    after   order of what comes of the first file
    """
    if isinstance(file, LiveFile):
        context = work.index.context(work.metadata, work.snapshot)
        rows, metrics = read_file_keys(file, context, versions=work.index.is_global)
    else:
        rows, metrics = _read_found(work.staging, file)
    order = after + 2 * number
    if rows.num_rows:
        names = work.schema.identity_columns
        hashes = hashes_of(rows, names, [work.schema.field(n).type for n in names])
        keys = RowKeys((file_of(rows).partition,), np.zeros(rows.num_rows, np.int32), hashes)
        yield RoutedRows(order, rows, work.owners(keys))
    counts = {name: count for name, count in metrics.as_dict().items() if count}
    task = np.array([number % work.rules.num_assigners], np.int32)
    yield RoutedRows(order + 1, pa.table({_METRICS: [json.dumps(counts)]}), task)


def locate_among(joiner: FileJoiner, of_files: Iterator[Block]) -> Callable[[KeyBatch, IndexContext], KeyLocations]:
    """Return what locates keys among those of files that were sent."""

    def locate(batch: KeyBatch, context: IndexContext) -> KeyLocations:
        metrics = IndexMetrics()

        def keys() -> Iterator[pa.Table]:
            for block in of_files:
                if _METRICS in block.rows.column_names:
                    metrics.add(IndexMetrics(**json.loads(block.rows.column(_METRICS)[0].as_py())))
                else:
                    yield block.rows

        located = locate_joined(
            batch, keys(), is_global=joiner.is_global,
            descending=context.descending, deletes_hide=context.deletes_hide,
        )  # fmt: skip
        located.metrics.add(metrics)
        return located

    return locate
