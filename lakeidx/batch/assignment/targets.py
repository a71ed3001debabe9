"""Targets of a batch: the (partition, bucket) pairs that get rows, numbered, and the files that say where each row goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.artifacts import Target
from lakeidx.batch.assignment.placed import PartPlaces, Place, Placed
from lakeidx.batch.moved_rows import write_moves
from lakeidx.batch.target_files import write_targets
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.table.view import SnapshotView, decode_partition_dict

#: Distinct codes within so many numbers are counted in a table instead of sorted.
_TABLE = 1 << 20


#: Number of each place, rows of each, and per part int32[rows] target numbers.
NumberedTargets = tuple[dict[Place, int], list[int], list[NDArray[np.int32]]]


def number_targets(parts: Sequence[PartPlaces]) -> NumberedTargets:
    """Assign numbers to the (partition, bucket) pairs that get rows, in the order in which parts come to them.

    returns    number of each place, rows of each, and per part int32[rows] target numbers
    """
    numbers: dict[Place, int] = {}
    counts: list[int] = []
    out: list[NDArray[np.int32]] = []
    for part in parts:
        combined = part.codes.astype(np.int64) << 32 | part.buckets.astype(np.int64)
        distinct, inverse, sizes = _unique(combined)
        mapping = np.empty(len(distinct), dtype=np.int32)
        for j, (value, size) in enumerate(zip(distinct.tolist(), sizes.tolist(), strict=True)):
            place = (part.partitions[value >> 32], value & 0xFFFFFFFF)
            number = numbers.setdefault(place, len(numbers))
            if number == len(counts):
                counts.append(0)
            counts[number] += size
            mapping[j] = number
        out.append(mapping[inverse])
    return numbers, counts, out


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
                path=paths.index_dir if name is None else paths.manifest(name),
            )


def describe_targets(
    schema: TableSchema, view: SnapshotView, placed: Placed, numbers: dict[Place, int], rows: list[int], *, fresh: bool
) -> tuple[list[Target], int]:
    """Return what index_write must know of each target, and how many of them are new buckets.

    view    state of the partitions that get rows
    rows    of each target
    fresh   the batch replaces what is there: sequence numbers start at 0, no index file is continued
    """
    dynamic = schema.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)
    top = {} if fresh else view.max_sequence_numbers()
    index = {} if fresh or schema.bucket_mode is not BucketMode.HASH_DYNAMIC else view.hash_index()
    targets, opened = [], 0
    for place, number in numbers.items():
        entry = index.get(place[0], {}).get(place[1])
        opened += dynamic and entry is None and place not in top
        new = None if placed.new_hashes is None else placed.new_hashes.get(place, 0)
        targets.append(_target(place, rows[number], top.get(place, -1) + 1, entry, new))
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


def write_places(
    store: ObjectStore, directory: str, placed: Placed, numbers: Sequence[NDArray[np.int32]]
) -> tuple[str, ...]:
    """Write where each row of each part goes, and the moves that there are.

    numbers   per part int32: targets of the rows that are kept, then of the deletes the part adds
    returns   the target file of each part; moves are beside them
    """
    paths = []
    for i, goes in enumerate(numbers):
        paths.append(f"{directory}/targets-{i:05d}.arrow")
        if placed.moves is None:
            write_targets(store, paths[-1], goes)
            continue
        batch, plan = placed.moves.batch, placed.moves.plan
        rows = batch.of_part(i)
        kept = plan.keep[rows]
        count = int(np.count_nonzero(kept))
        of_rows = np.full(len(kept), -1, np.int32)
        of_rows[kept] = goes[:count]
        write_targets(store, paths[-1], of_rows)
        if placed.moves.any:
            deletes = batch.split_rows(plan.delete_row)[i]
            at = (plan.delete_row[deletes] - rows.start).astype(np.int32)
            write_moves(store, directory, i, at, goes[count:])
    return tuple(paths)


def _unique(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values, the number of each row's value, and how often each occurs; linear when there are few
    of them.
    """
    if len(values) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    low = int(values.min())
    if int(values.max()) - low < _TABLE:
        sizes = np.bincount(values - low)
        present = np.flatnonzero(sizes)
        lookup = np.zeros(len(sizes), dtype=np.int64)
        lookup[present] = np.arange(len(present))
        return present + low, lookup[values - low], sizes[present]
    distinct, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return distinct, inverse, sizes
