"""A whole batch of one partition at once: what `PartitionIndex` gives row by row, for batches that are large against the cache.

A map of all hashes misses the cache for every row. Here rows are first put into parts by their mixed hash, so that the table of
one part stays in the cache; part by part each row learns whether its hash is known, came before in the batch, or is new. A last
pass in row order hands the rooms of buckets out. Rules, walk order and buckets are those of `PartitionIndex`; a property test
compares the two.

========  =====================================================================
answer    of a row, before rooms are handed out
========  =====================================================================
0         its hash is new here
r + 1     its hash first came at row r
-b - 1    its hash is known, in bucket b
========  =====================================================================

Rows are parted a range of mixed hashes at a time, so memory besides the answers is bounded by `_PASS_ROWS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.capacity import GrowingBuckets, OverwriteRooms, bucket_column
from lakeidx.bucket_assignment.hash_map import mixed_slot
from lakeidx.bucket_assignment.partition_index import Assignment, IndexedBucket, checked_picks, loaded_rooms
from lakeidx.bucket_assignment.rules import AssignRules, BucketPicker, LimitScope
from lakeidx.codec.jit import kernel

#: Rows from which on a map of the hashes is slower.
MIN_ROWS = 4 << 20
#: Rows parted at a time, 8 bytes each; and rows of a part.
_PASS_ROWS = 16 << 20
PART_ROWS = 1 << 16
#: Parts written at a time: more of them miss the address cache for every row.
_STREAMS = 256
_BLOCK = 4096
_DRAW_ROWS = 1 << 20
#: A part that is so many times the mean holds one hash very often; a map serves it better.
_SKEW = 4
_ROW_BITS, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)

Hashes = NDArray[np.int32]


@kernel
def _count(hashes: Hashes, counts: NDArray[np.int64]) -> None:
    parts = np.uint64(len(counts))
    for i in range(len(hashes)):
        counts[mixed_slot(hashes[i], parts)] += 1


@kernel
def _scatter(
    hashes: Hashes, base: int, step: int, parts: int, low: int, at: NDArray[np.int64], out: NDArray[np.uint64]
) -> None:
    # Entry: hash above, number below; numbers are base, base + step, ... Rows of the parts requested are first gathered from a
    # block, without a branch, so that the scatter has none either.
    all_parts, wide = np.uint64(parts), np.uint64(len(at))
    entries, places = np.empty(_BLOCK + 1, np.uint64), np.empty(_BLOCK + 1, np.int64)
    for start in range(0, len(hashes), _BLOCK):
        kept = 0
        for i in range(start, min(start + _BLOCK, len(hashes))):
            p = mixed_slot(hashes[i], all_parts) - low
            entries[kept] = (np.uint64(np.uint32(hashes[i])) << _ROW_BITS) | np.uint64(base + i * step)
            places[kept] = p
            kept += int(np.uint64(p) < wide)
        for j in range(kept):
            p = places[j]
            out[at[p]] = entries[j]
            at[p] += 1


@kernel
def _answer(
    rows: NDArray[np.uint64],
    row_starts: NDArray[np.int64],
    known: NDArray[np.uint64],
    known_starts: NDArray[np.int64],
    parts: int,
    low: int,
    capacity: int,
    first: NDArray[np.int32],
) -> None:
    keys, values = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    slots, last = np.uint64(parts * capacity), capacity - 1
    for p in range(len(row_starts) - 1):
        values[:] = 0
        origin = (low + p) * capacity
        for i in range(known_starts[p], known_starts[p + 1]):
            h = np.int32(known[i] >> _ROW_BITS)
            s = mixed_slot(h, slots) - origin
            while values[s] != 0 and keys[s] != h:
                s = 0 if s == last else s + 1
            keys[s] = h
            # A hash that two files have belongs to the later one.
            values[s] = -np.int32(known[i] & _LOW32) - 1
        for i in range(row_starts[p], row_starts[p + 1]):
            h = np.int32(rows[i] >> _ROW_BITS)
            row = np.int32(rows[i] & _LOW32)
            s = mixed_slot(h, slots) - origin
            while values[s] != 0 and keys[s] != h:
                s = 0 if s == last else s + 1
            if values[s] == 0:
                keys[s] = h
                values[s] = row + 1
            else:
                first[row] = values[s]


@kernel
def _hand_out(
    first: NDArray[np.int32], is_new: NDArray[np.bool_], start: int, bucket: int, room: int
) -> tuple[int, int]:
    # Answers become buckets, up to `room` new rows get `bucket`. Returns (first row not done, room left).
    for i in range(start, len(first)):
        answer = first[i]
        if answer == 0:
            if room == 0:
                return i, room
            first[i] = bucket
            is_new[i] = True
            room -= 1
        elif answer > 0:
            first[i] = first[answer - 1]
        else:
            first[i] = -answer - 1
    return len(first), room


@kernel
def _hand_drawn(
    first: NDArray[np.int32], is_new: NDArray[np.bool_], start: int, stop: int, picks: NDArray[np.int32]
) -> None:
    taken = 0
    for i in range(start, stop):
        answer = first[i]
        if answer == 0:
            first[i] = picks[taken]
            is_new[i] = True
            taken += 1
        elif answer > 0:
            first[i] = first[answer - 1]
        else:
            first[i] = -answer - 1


@dataclass(frozen=True, slots=True, eq=False)
class ColumnsAssignment:
    """Buckets of a batch's rows of one partition.

    columns      of each column that was given
    new_counts   hashes that each bucket got and did not have
    """

    columns: list[Assignment]
    new_counts: dict[int, int]


def assign_columns(
    columns: Sequence[Hashes],
    files: Sequence[IndexedBucket],
    *,
    rules: AssignRules,
    pick: BucketPicker,
    overwrite: bool = False,
    pass_rows: int = _PASS_ROWS,
    part_rows: int = PART_ROWS,
) -> ColumnsAssignment | None:
    """Assign every row to its bucket, as `PartitionIndex.load(files)` (or `for_overwrite`) does column after column.

    columns     int32[n] each, hashes of the trimmed primary keys
    files       as for `PartitionIndex.load`
    pass_rows   rows parted at a time; part_rows: rows of a part, whose table is to fit the cache
    returns     None when a hash is so frequent that a map of the hashes is the better way
    memory      5 bytes a row, and 8 for each row of a pass and each hash of the files in its range
    errors      InvalidInputError when bucket ids have run out
    """
    total = sum(len(c) for c in columns)
    if rules.limit_scope is not LimitScope.PARTITION or total >= 1 << 31:
        return None
    columns = [np.require(c, np.int32, ["C", "W"]) for c in columns]
    files = [_native(file) for file in files]
    first = np.zeros(total, np.int32)
    if not _answer_all(columns, files, first, pass_rows, part_rows):
        return None
    rooms: GrowingBuckets | OverwriteRooms = OverwriteRooms(rules) if overwrite else loaded_rooms(rules, files)
    is_new = np.zeros(total, np.bool_)
    before = dict(rooms.counts)
    _hand_rooms(first, is_new, rooms, pick)
    edges = np.cumsum([0, *(len(c) for c in columns)]).tolist()
    assigned = [Assignment(first[a:b], is_new[a:b]) for a, b in pairwise(edges)]
    counts = {b: n - before.get(b, 0) for b, n in rooms.counts.items()}
    return ColumnsAssignment(assigned, {b: n for b, n in sorted(counts.items()) if n})


def _native(file: IndexedBucket) -> IndexedBucket:
    bucket, hashes, *counted = file
    hashes = np.require(hashes, np.int32, ["C", "W"])
    return (bucket, hashes, counted[0]) if counted else (bucket, hashes)


def _answer_all(
    columns: Sequence[Hashes], files: Sequence[IndexedBucket], first: NDArray[np.int32], pass_rows: int, part_rows: int
) -> bool:
    """Write the answers of all rows; False when the hashes are too uneven."""
    entries = len(first) + sum(len(f[1]) for f in files)
    passes = _power_of_two(-(-entries // pass_rows))
    parts = max(passes, min(passes * _STREAMS, _power_of_two(entries // part_rows)))
    stored = [f[1] for f in files]
    row_counts, known_counts = _counted(columns, parts), _counted(stored, parts)
    largest = int((row_counts + known_counts).max())
    if largest > _SKEW * max(PART_ROWS, -(-entries // parts)):
        return False
    capacity = _power_of_two(2 * max(largest, 1))
    row_numbers = np.cumsum([0, *(len(c) for c in columns)]).tolist()
    at_a_time = parts // passes
    for low in range(0, parts, at_a_time):
        some = slice(low, low + at_a_time)
        rows, row_starts = _parted(columns, row_numbers, 1, parts, low, row_counts[some])
        known, known_starts = _parted(stored, [f[0] for f in files], 0, parts, low, known_counts[some])
        _answer(rows, row_starts, known, known_starts, parts, low, capacity, first)
    return True


def _power_of_two(least: int) -> int:
    return 1 << (max(least, 1) - 1).bit_length()


def _counted(columns: Sequence[Hashes], parts: int) -> NDArray[np.int64]:
    """Return the entries of each part, int64[parts]."""
    counts = np.zeros(parts, np.int64)
    for hashes in columns:
        _count(hashes, counts)
    return counts


def _parted(
    columns: Sequence[Hashes], numbers: Sequence[int], step: int, parts: int, low: int, counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the entries of the parts from `low` on, part after part, in the order of the columns; and where each part starts.

    numbers   of the first entry of each column; they grow by `step` from row to row
    counts    entries of each of these parts
    """
    starts = np.concatenate(([0], np.cumsum(counts)))
    out, at = np.empty(int(starts[-1]), np.uint64), starts[:-1].copy()
    for hashes, number in zip(columns, numbers, strict=False):
        _scatter(hashes, number, step, parts, low, at, out)
    return out, starts


def _hand_rooms(
    first: NDArray[np.int32], is_new: NDArray[np.bool_], rooms: GrowingBuckets | OverwriteRooms, pick: BucketPicker
) -> None:
    row, _ = _hand_out(first, is_new, 0, 0, 0)
    while row < len(first):
        room = rooms.next_room(0)
        if room is None:
            break
        row, left = _hand_out(first, is_new, row, room.bucket, room.rows)
        rooms.record(room.bucket, room.rows - left)
    choices = rooms.choices if row < len(first) else bucket_column(())
    while row < len(first):
        stop = min(len(first), row + _DRAW_ROWS)
        picks = checked_picks(pick, choices, int(np.count_nonzero(first[row:stop] == 0)))
        _hand_drawn(first, is_new, row, stop, picks)
        per_bucket: Any = np.bincount(picks)
        for bucket in np.flatnonzero(per_bucket).tolist():
            rooms.record(bucket, int(per_bucket[bucket]))
        row = stop
