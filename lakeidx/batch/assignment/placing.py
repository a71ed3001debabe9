"""Place the rows of a batch in tasks, each with the keys and the part of the index that it owns.

A map task reads the key columns of a part and sends each row's position, key hash and partition, and its key where the index type
looks at keys, to the task that owns the hash. That task locates the keys, opens and fills only buckets of its own, reads the files
of the HASH index for its rows, and writes the targets of its rows. The driver gets counts per target. Rows themselves do not move
here. A batch that fits the driver's budget is placed by one task there.

What fits a process is checked before anything is written, by lower bounds: what the assignment of a row with an 8-byte key takes. A
batch that does not fit by them cannot be assigned; one that does may still be too large where keys are long texts.

source   org.apache.paimon.flink.sink.RowDynamicBucketSink, org.apache.paimon.index.HashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.by_hash import place_by_hash
from lakeidx.batch.assignment.placement import PartPlaces, Placed, PlaceWork, RowCounts
from lakeidx.batch.assignment.row_keys import (
    PartItem,
    PartKeys,
    ReceivedKeys,
    is_of_part,
    part_items,
    read_part_keys,
    rows_to_route,
)
from lakeidx.batch.assignment.targets import BatchTargets, TaskTargets, join_shares, write_share
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.bucket_assignment.rules import PARALLELISM_OPTION
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.port import ExternalState, Locator, TagTasks
from lakeidx.tasks.limits import available_bytes
from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from lakeidx.key_index.locations import LiveFile

    #: A data file, or the path of what was found in one, with its number.
    FileItem = tuple[int, LiveFile | str]


#: Parts that the driver reads at a time (Arrow and the kernels release the GIL).
_READ_THREADS = 4
#: Bytes that a row is reckoned to take in the process that assigns, by index type; of types that look keys up.
_ROW_BYTES, _KEYED_ROW_BYTES = {"hash": 40, "bucket": 40, "state": 160, "inmemory": 160}, 90
#: Those of them that it takes at the very least: of rows of one partition; where they mix, hash takes half as much again.
_LEAST_ROW_BYTES = {**_ROW_BYTES, "hash": 20, "bucket": 12}
#: Bytes of a key in an index that lies in memory.
_HELD_KEY_BYTES = 45
#: Bytes of a bucket that gets rows: its line in the reports, what its task wrote, its manifest entries.
_TARGET_BYTES = 2000
#: Rows that an index of keys numbers.
_MOST_ROWS = (1 << 31) - 1


def place_batch(
    context: BatchContext, ingest: IngestReport, schema: TableSchema, snapshot: Snapshot | None, directory: str
) -> BatchTargets:
    """Place all rows of a batch on a snapshot, and write their targets.

    directory   gets the target files
    errors      UnsupportedError for an overwrite that the index type cannot follow; CommitConflictError when what an index type
                keeps is of a later snapshot; InvalidInputError for a batch that a process has no memory for; what reading parts,
                index files and data files raises
    """
    index = TableIndex.of(schema)
    _check_overwrite(context, index)
    holds_keys = index.type is not None and index.type.stays_in_process
    held_keys = snapshot.total_record_count or 0 if holds_keys and snapshot else 0
    here = fits_driver(schema, ingest.rows_staged, held_keys, context.driver_bytes)
    if not here:
        index.forget(context.paths)
    work = PlaceWork.of(context, schema, snapshot, directory, None if here else context.runner.parallelism)
    runner: Runner = LocalRunner(_READ_THREADS) if here else context.runner
    placed = join_shares(directory, _place(context, ingest, work, runner), len(ingest.parts), in_tasks=not here)
    if here:
        return placed
    return replace(placed, metrics={**placed.metrics, "placing_tasks": float(work.rules.num_assigners)})


def _place(context: BatchContext, ingest: IngestReport, work: PlaceWork, runner: Runner) -> Sequence[TaskTargets]:
    items: list[PartItem | FileItem] = list(part_items(ingest))
    # One task in this process asks the index itself.
    if work.index.locator is not None and not work.fresh and not work.here:
        items += _prepare_index(context, ingest, work, work.index.locator)
    count = work.rules.num_assigners
    tasks = _PlacingTasks(work, len(ingest.parts), ingest.rows_staged)
    return runner.shuffle(
        tasks,
        items,
        targets=range(count),
        # Keys spread evenly; a task whose share is large is to read it block by block.
        weights=[max(1, ingest.rows_staged // count)] * count,
        label=context.label("bucket_assignment"),
    )


def _prepare_index(
    context: BatchContext, ingest: IngestReport, work: PlaceWork, locator: Locator
) -> Sequence[FileItem]:
    """Do what tasks need of the index once for the whole batch; return the files whose keys they are sent."""
    from lakeidx.batch.assignment.file_keys import files_to_read
    from lakeidx.key_index.joined import FileJoiner

    if isinstance(locator, FileJoiner):
        return list(enumerate(files_to_read(context, ingest, work, locator)))
    remake = partial(work.index.context, work.metadata, work.snapshot)
    locator.prepare_tag(remake(), TagTasks(context.runner, remake, context.label("key_state")))
    return []


@dataclass(frozen=True, slots=True)
class _PlacingTasks:
    """Functions of the tasks; pickles.

    parts   of the whole batch; what comes of data files comes after them
    rows    of the whole batch
    """

    work: PlaceWork
    parts: int
    rows: int

    def split(self, item: PartItem | FileItem) -> Iterator[RoutedRows]:
        """Map: route the keys of one part, or of a data file."""
        if len(item) == 2:
            from lakeidx.batch.assignment.file_keys import send_file_keys

            yield from send_file_keys(self.work, *item, after=self.parts)
            return
        number, part, source = item
        keep = self.work.index.locator is not None
        found = read_part_keys(self.work.staging, source, part, self.work.schema, number, keep=keep)
        if len(found.keys):
            yield RoutedRows(
                number, rows_to_route(found.keys, found.retract, found.columns), self.work.owners(found.keys)
            )

    def combine(self, task: int, blocks: Iterator[Block]) -> TaskTargets:
        """Reduce: place the rows of one task, in batch order.

        errors   InvalidInputError for a share of rows that this process has no memory for
        """
        work = self.work
        check_rows_fit(work.schema, self.rows, tasks=None if work.here else work.rules.num_assigners)
        received, of_files = ReceivedKeys(), iter(blocks)
        for block in of_files:
            if not is_of_part(block):
                of_files = chain([block], of_files)
                break
            received.add(block)
        if work.index.locator is not None:
            placed = self._place_keys(received, of_files, task)
        else:
            placed = _place_parts(work, received.parts, task)
        return write_share(work.staging, work.directory, placed, task)

    def _place_keys(self, received: ReceivedKeys, of_files: Iterator[Block], task: int) -> Placed:
        from lakeidx.batch.assignment.by_key_index import place_by_key_index
        from lakeidx.batch.assignment.file_keys import locate_among
        from lakeidx.batch.assignment.keyed_batch import keyed_rows
        from lakeidx.key_index.joined import FileJoiner

        work, batch = self.work, keyed_rows(received, self.work.schema)
        # What an index keeps in a process is the driver's.
        opened: AbstractContextManager[Any] = (
            work.index.open(work.metadata.paths) if work.here else closing(work.index.made())
        )
        with opened as locator:
            sent = not work.here and isinstance(locator, FileJoiner)
            return place_by_key_index(work, batch, locator, task, locate_among(locator, of_files) if sent else None)


def _place_parts(work: PlaceWork, parts: Sequence[PartKeys], task: int) -> Placed:
    """Place rows whose bucket follows from their hash, or from the HASH index.

    errors   UnsupportedError for other bucket modes; see `place_by_hash`
    """
    if work.index.type is not None:
        return place_by_hash(work, parts, task)
    mode = work.schema.bucket_mode
    if mode not in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        raise UnsupportedError(f"bucket mode {mode.name} cannot be upserted yet", path=work.metadata.paths.root)
    counts, places = RowCounts(), []
    for part in parts:
        keys = part.keys
        # Without a primary key each row is a new one.
        counts.add(len(keys), None if work.schema.primary_keys else np.zeros(len(keys), np.bool_), part.retract)
        buckets = keys.hashes if mode is BucketMode.HASH_FIXED else np.zeros(len(keys), np.int32)
        places.append(PartPlaces(part.rows, keys.partitions, keys.codes, buckets, part.ranks))
    return Placed(parts=places, counts=counts)


def _check_overwrite(context: BatchContext, index: TableIndex) -> None:
    if context.overwrite == "partitions" and index.is_global:
        raise UnsupportedError(
            "partitions cannot be overwritten in a table whose keys are unique across partitions: a key may exist in another "
            "partition; overwrite the whole table",
            path=context.paths.root,
        )
    why_not = index.locator.why_no_overwrite if isinstance(index.locator, ExternalState) else ""
    if context.overwrite is not None and why_not:
        raise UnsupportedError(why_not, path=context.paths.root)


def fits_driver(schema: TableSchema, rows: int, held_keys: int, held: int | None = None) -> bool:
    """Return True when the rows of a batch may be assigned in the driver; those of a larger one are in tasks.

    held_keys   keys of the table that an index in the driver's memory has; 0 for other types
    held        bytes that a batch may hold there; default as the table's option says
    """
    if held is None:
        held = TableIndex.of(schema).options.index_driver_memory
    return _needed(schema, rows, held_keys) <= held and rows <= _MOST_ROWS


def _needed(schema: TableSchema, rows: int, held_keys: int) -> int:
    return rows * _ROW_BYTES.get(TableIndex.of(schema).name, _KEYED_ROW_BYTES) + held_keys * _HELD_KEY_BYTES


def check_rows_fit(schema: TableSchema, rows: int, granted: int | None = None, *, tasks: int | None = None) -> None:
    """Refuse a batch with more rows than can be assigned in this process, whatever they are.

    granted  bytes that it may use; default as its limits say
    tasks    this process is one of so many placing tasks, each of which has its share of the rows; None: it has all rows
    errors   InvalidInputError: says what it takes and what to change
    """
    granted = available_bytes() if granted is None else granted
    share = -(-rows // (tasks or 1))
    if share <= min(granted // max(_ROW_BYTES.values()), _MOST_ROWS):
        return
    kind = TableIndex.of(schema).name
    each = _LEAST_ROW_BYTES.get(kind, _KEYED_ROW_BYTES)
    most = granted // each if kind in ("hash", "bucket") else min(granted // each, _MOST_ROWS)
    if share <= most:
        return
    if tasks is None:
        who, change = "this process can assign", f"where {_gib(share * each)} GiB are granted"
    else:
        who = f"each of its {tasks} placing tasks can assign"
        change = (
            f"with {_gib(share * each)} GiB for a task, or with more tasks, by more slots or option"
            f" '{PARALLELISM_OPTION}'"
        )
    raise InvalidInputError(
        f"the batch has {rows} rows, and {who} {most} at a time with index.type={kind}: a row takes"
        f" {each} bytes or more, and it may use {_gib(granted)} GiB; load it as several batches, or {change}"
    )


def check_buckets_fit(schema: TableSchema, buckets: int, granted: int | None = None) -> None:
    """Refuse a batch that touches more buckets than fit into the memory of a commit.

    granted  bytes that this process may use; default as its limits say
    errors   InvalidInputError: says what it takes and what to change
    """
    granted = available_bytes() if granted is None else granted
    if buckets * _TARGET_BYTES <= granted:
        return
    option = "dynamic-bucket.target-row-num" if schema.bucket < 0 else "bucket"
    raise InvalidInputError(
        f"the batch touches {buckets} buckets, and {granted // _TARGET_BYTES} fit into the {_gib(granted)} GiB that this process"
        " may use:"
        " load it as several batches, by partition where there are partitions, or make fewer and larger buckets"
        f" (option '{option}')"
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
