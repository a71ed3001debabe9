"""Targets of a batch: the numbered (partition, bucket) pairs that get rows, and the files with the target of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import Target
from lakeidx.batch.assignment.placement import PartPlaces, Place, Placed, RowCounts
from lakeidx.batch.target_files import located_path, targets_path, write_part_share
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.table.view import SnapshotView, decode_partition_dict, number_partitions
from lakeidx.tasks.in_parallel import in_parallel

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TaskTargets:
    """Decisions of a placing task about its rows, as counts per target.

    partitions   those of its targets, as manifest bytes
    partition    int32[k] of each target, in `partitions`
    bucket       int32[k]
    first        int64[k]: part in which the target first gets a row << 32 | number of its partition in that part
    rows         int64[k]
    new_hashes   int64[k] hashes that it gets and did not have; None: not counted
    parts        numbers of the parts that have rows among them
    moved        deletes that moves add
    dropped      rows that are left out
    moves        some row is dropped, moved, or adds a delete
    located      the answers of an index type with state outside the table were written
    """

    task: int
    partitions: tuple[bytes, ...]
    partition: NDArray[np.int32]
    bucket: NDArray[np.int32]
    first: NDArray[np.int64]
    rows: NDArray[np.int64]
    new_hashes: NDArray[np.int64] | None
    parts: tuple[int, ...]
    counts: RowCounts
    metrics: Mapping[str, float]
    moved: int
    dropped: int
    moves: bool
    located: bool
    is_global: bool
    by_partition: bool


@dataclass(frozen=True, slots=True, eq=False)
class BatchTargets:
    """Decisions about all rows of a batch, in the order of its targets.

    places       of the targets
    rows         of each target
    new_hashes   of each target; None: not counted
    paths        target file of each part
    in_tasks     the runner's tasks placed them, not one in this process
    tasks        of each part: the tasks that placed rows of it
    numbers      of each task: int32[k] the batch's number of each of its targets
    located      files with the answers of an index type with state outside the table, of each part
    """

    places: list[Place]
    rows: list[int]
    new_hashes: list[int] | None
    paths: tuple[str, ...]
    in_tasks: bool
    tasks: tuple[tuple[int, ...], ...]
    numbers: Mapping[int, NDArray[np.int32]]
    counts: RowCounts
    metrics: Mapping[str, float]
    moved: int
    dropped: int
    moves: bool
    located: tuple[str, ...]
    is_global: bool
    by_partition: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Numbered:
    """The targets of some rows, in the order in which parts come to them.

    places, first, rows   of each target
    per_part              int32[n] each: the targets of the rows that `PartPlaces` tells of
    """

    places: list[Place]
    first: list[int]
    rows: list[int]
    per_part: list[NDArray[np.int32]]


def _number_targets(parts: Sequence[PartPlaces]) -> _Numbered:
    numbers: dict[Place, int] = {}
    first: list[int] = []
    rows: list[int] = []
    out: list[NDArray[np.int32]] = []
    for part in parts:
        stride = int(part.buckets.max(initial=0)) + 1
        distinct, inverse, sizes = _unique(part.codes.astype(np.int64) * stride + part.buckets)
        mapping = np.empty(len(distinct), dtype=np.int32)
        for j, (value, size) in enumerate(zip(distinct.tolist(), sizes.tolist(), strict=True)):
            code, bucket = divmod(value, stride)
            place = (part.partitions[code], bucket)
            number = numbers.setdefault(place, len(numbers))
            if number == len(rows):
                rows.append(0)
                first.append(part.rows.number << 32 | (code if part.ranks is None else int(part.ranks[code])))
            rows[number] += size
            mapping[j] = number
        out.append(mapping[inverse])
    return _Numbered(list(numbers), first, rows, out)


def write_share(store: ObjectStore, directory: str, placed: Placed, task: int) -> TaskTargets:
    """Write where rows go, with the targets numbered in the order in which parts come to them; return the counts.

    task   the placing task whose share they are
    """
    numbered = _number_targets(placed.parts)
    _write_places(store, directory, placed, numbered.per_part, task)
    moves, new = placed.moves, placed.new_hashes
    partitions, codes = number_partitions((), (p for p, _ in numbered.places))
    if placed.located is not None:
        from lakeidx.batch.assignment.keyed_batch import write_located

        write_located(store, directory, *placed.located, task)
    return TaskTargets(
        task=task,
        partitions=partitions,
        partition=np.array([codes[p] for p, _ in numbered.places], np.int32),
        bucket=np.array([b for _, b in numbered.places], np.int32),
        first=np.array(numbered.first, np.int64),
        rows=np.array(numbered.rows, np.int64),
        new_hashes=None if new is None else np.array([new.get(p, 0) for p in numbered.places], np.int64),
        parts=tuple(part.rows.number for part in placed.parts),
        counts=placed.counts,
        metrics=placed.metrics,
        moved=0 if moves is None else len(moves.plan.delete_row),
        dropped=0 if moves is None else int(np.count_nonzero(~moves.plan.keep)),
        moves=moves is not None and moves.any,
        located=placed.located is not None,
        is_global=placed.is_global,
        by_partition=placed.by_partition,
    )


def join_shares(directory: str, shares: Sequence[TaskTargets], parts: int, *, in_tasks: bool) -> BatchTargets:
    """Assign numbers within the batch to the targets of all shares, in the order in which parts first use them.

    parts      of the batch
    in_tasks   the runner's tasks placed the rows, not one in this process
    """
    places, numbers = _number_shares(shares)

    def total(columns: Sequence[NDArray[np.int64]]) -> list[int]:
        out = np.zeros(len(places), np.int64)
        np.add.at(out, numbers, np.concatenate([_NONE, *columns]))
        return list(out.tolist())

    new = [share.new_hashes for share in shares if share.new_hashes is not None]
    edges = accumulate((len(share.rows) for share in shares), initial=0)
    numbered = [(share, numbers[a:b]) for share, (a, b) in zip(shares, pairwise(edges), strict=True)]
    counts, metrics = RowCounts(), dict[str, float]()
    for share in shares:
        counts.join(share.counts)
        for name, value in share.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + value
    return BatchTargets(
        places=places,
        rows=total([share.rows for share in shares]),
        new_hashes=total(new) if len(new) == len(shares) else None,
        paths=tuple(targets_path(directory, part) for part in range(parts)),
        in_tasks=in_tasks,
        tasks=_tasks_of_parts(shares, parts),
        numbers={share.task: of_share for share, of_share in numbered},
        counts=counts,
        metrics=metrics,
        moved=sum(share.moved for share in shares),
        dropped=sum(share.dropped for share in shares),
        moves=any(share.moves for share in shares),
        located=tuple(located_path(directory, i) for i in range(parts)) if any(s.located for s in shares) else (),
        is_global=any(share.is_global for share in shares),
        by_partition=any(share.by_partition for share in shares),
    )


def _number_shares(shares: Sequence[TaskTargets]) -> tuple[list[Place], NDArray[np.int32]]:
    """Return the places of a batch, and the number of each share's targets among them, share after share."""
    partitions, codes = number_partitions((), (p for share in shares for p in share.partitions))
    combined = [
        np.array([codes[p] for p in share.partitions], np.int64)[share.partition] << 32 | share.bucket
        for share in shares
    ]
    distinct, inverse = np.unique(np.concatenate([_NONE, *combined]), return_inverse=True)
    first = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, np.concatenate([_NONE, *(share.first for share in shares)]))
    order = np.lexsort((distinct & 0xFFFFFFFF, first))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return [(partitions[value >> 32], value & 0xFFFFFFFF) for value in distinct[order].tolist()], rank[inverse]


def _tasks_of_parts(shares: Sequence[TaskTargets], parts: int) -> tuple[tuple[int, ...], ...]:
    tasks: list[list[int]] = [[] for _ in range(parts)]
    for share in shares:
        for part in share.parts:
            tasks[part].append(share.task)
    return tuple(tuple(sorted(found)) for found in tasks)


def check_indexed(paths: TablePaths, view: SnapshotView) -> None:
    """Refuse buckets that have rows and no HASH index: their keys would be taken for new ones and come twice.

    Every writer keeps an index file for each bucket; Avro does not show that a block of an index manifest was cut off.
    errors   CorruptFileError
    """
    index = view.hash_index()
    for partition, bucket in view.entries.places()[1]:
        if bucket not in index.get(partition, {}):
            name = None if view.snapshot is None else view.snapshot.index_manifest
            raise CorruptFileError(
                f"bucket {bucket} of partition {decode_partition_dict(partition, view.schema)} has rows and no hash index, so "
                "their keys cannot be found: restore the index manifest, roll back, or overwrite the partition",
                path=paths.index_dir if name is None else paths.manifest_path(name),
            )


def describe_targets(
    schema: TableSchema, view: SnapshotView, placed: BatchTargets, *, fresh: bool
) -> tuple[list[Target], int]:
    """Return what index_write must know of each target, and how many of them are new buckets.

    view    state of the partitions that get rows
    fresh   the batch replaces what is there: sequence numbers start at 0, no index file is continued
    """
    dynamic = schema.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)
    top = {} if fresh else view.max_sequence_numbers()
    index = {} if fresh or schema.bucket_mode is not BucketMode.HASH_DYNAMIC else view.hash_index()
    targets, opened = [], 0
    for number, place in enumerate(placed.places):
        entry = index.get(place[0], {}).get(place[1])
        opened += dynamic and entry is None and place not in top
        new = None if placed.new_hashes is None else placed.new_hashes[number]
        targets.append(_target(place, placed.rows[number], top.get(place, -1) + 1, entry, new))
    return targets, opened


def _target(place: Place, rows: int, first_sequence: int, entry: IndexEntry | None, new: int | None) -> Target:
    return Target(
        partition=place[0].hex(),
        bucket=place[1],
        rows=rows,
        first_sequence=first_sequence,
        index_file=None if entry is None else entry.file_name,
        index_path=None if entry is None else entry.external_path,
        index_rows=None if entry is None else entry.row_count,
        new_hashes=new,
    )


def _write_places(
    store: ObjectStore, directory: str, placed: Placed, numbers: Sequence[NDArray[np.int32]], task: int
) -> None:
    """Write the target of each row of each part, and the moves.

    numbers   per part int32: targets of the rows that are kept, then of the deletes the part adds
    """

    def write(i: int) -> None:
        goes, part = numbers[i], placed.parts[i].rows
        if placed.moves is None:
            write_part_share(store, targets_path(directory, part.number), task, part.at, goes)
            return
        batch, plan = placed.moves.batch, placed.moves.plan
        rows = batch.of_part(i)
        kept = plan.keep[rows]
        count = int(np.count_nonzero(kept))
        of_rows = np.full(len(kept), -1, np.int32)
        of_rows[kept] = goes[:count]
        write_part_share(store, targets_path(directory, part.number), task, part.at, of_rows)
        # Whether other tasks have found moves is not known here.
        if placed.moves.any or placed.is_global:
            at = (plan.delete_row[deletes[i]] - rows.start).astype(np.int32)
            from lakeidx.batch.moved_rows import write_moves

            write_moves(store, directory, part.number, part.at[at], goes[count:], task)

    deletes = [] if placed.moves is None else placed.moves.batch.split_rows(placed.moves.plan.delete_row)
    in_parallel(write, range(len(numbers)))


def _unique(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the distinct values, ascending, the number of each row's value, and how often each occurs; in linear time."""
    encoded = pa.array(values).dictionary_encode()
    distinct, codes = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
    order = np.argsort(distinct)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order], rank[codes], np.bincount(codes, minlength=len(order))[order]
