"""The dynamic-bucket hash index of one partition in an assigner's memory: a state machine over whole columns.

For each row, in order: a known hash has its bucket; a new one goes to the first own bucket with fewer than target rows,
else to a new bucket (the smallest own id that is free), else, where max-buckets forbids another one, to a known bucket
drawn at random. `assign_rows` gives exactly what these rules give row by row, hashes repeated inside the column included
(`tests.kit.reference_assigner` is the row-by-row form, and a property test compares the two).

source   org.apache.paimon.index.PartitionIndex, release 1.4.2; facts: the fact sheet's sections 6.3 and 18

Capacity for new hashes: the buckets an assigner owns in one partition, and the order in which they are filled.

A state machine over bucket ids and counts only; which hashes are known is not its business. It is asked once per bucket that fills
up, never once per row.

*Order of buckets that were loaded.* Java's PartitionIndex keeps the buckets with room that it loaded from index files in a
``java.util.HashMap`` filled with ``compute``, once per hash of each file. A new key is put at the head of its bin, the table (16
bins at first) doubles when it already holds more than 3/4 of its bins, or when a bin has reached eight keys in a table below 64.
The walk goes bin by bin. Which bucket takes the next key is free as far as the format goes; following Java's order makes a table
written in turns by both come out the same.

source   org.apache.paimon.index.PartitionIndex.loadIndex, release 1.4.2; java.util.HashMap of Java 8 to 21
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.bucket_assignment.rules import MAX_BUCKETS, AssignRules, BucketPicker, no_own_bucket, too_many_buckets
from lakeidx.errors import InvalidInputError

#: Bucket and hashes of a HASH file; and how many hashes the file has, when only some of them are given.
IndexedBucket = tuple[int, NDArray[np.int32]] | tuple[int, NDArray[np.int32], int]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Buckets of the rows of a column.

    buckets  int32[n]
    is_new   bool[n], True at the row that brought its hash into the index
    """

    buckets: NDArray[np.int32]
    is_new: NDArray[np.bool_]


class PartitionIndex:
    """Hash -> bucket of one partition; make one with `load`."""

    __slots__ = ("_before", "_map", "_pick", "_rooms")

    def __init__(self, pick: BucketPicker, rooms: GrowingBuckets, hash_map: HashMap) -> None:
        self._pick = pick
        self._rooms = rooms
        self._map = hash_map
        self._before = dict(rooms.counts)

    @classmethod
    def load(
        cls,
        files: Iterable[IndexedBucket],
        *,
        rules: AssignRules,
        pick: BucketPicker,
    ) -> PartitionIndex:
        """Load the index from the HASH files of a partition.

        files        (bucket, int32[m]) per file, in the order of the index manifest; with the number of hashes in the file
                     as a third when only some of them are given, such as those that come to this assigner; others are not
                     remembered, but count in the buckets this assigner owns
        errors       InvalidInputError for a bucket id beyond 32,766 or hashes that are not an int32 column
        cost         one pass over the hashes; the map is allocated once
        """
        kept: list[tuple[int, NDArray[np.int32]]] = []
        rows: dict[int, int] = {}
        for bucket, hashes, *counted in files:
            if not 0 <= bucket < MAX_BUCKETS:
                raise InvalidInputError(f"bucket {bucket} of a hash index is not one of 0 to {MAX_BUCKETS - 1}")
            hashes = _column(hashes)
            rows[bucket] = rows.get(bucket, 0) + (counted[0] if counted else len(hashes))
            kept.append((bucket, hashes))
        hash_map = HashMap()
        hash_map.reserve(sum(len(hashes) for _, hashes in kept))
        for bucket, hashes in kept:
            hash_map.store(hashes, bucket)
        walk = loaded_walk_order((bucket, n) for bucket, n in rows.items() if rules.owns(bucket))
        return cls(pick, GrowingBuckets(rules, {bucket: rows[bucket] for bucket in walk}, walk), hash_map)

    def reserve(self, rows: int) -> None:
        """Size the map for so many rows more, which are all new at most: growing row by row takes twice the time and memory."""
        self._map.reserve(len(self._map) + rows)

    @property
    def counts(self) -> dict[int, int]:
        """Hashes per own bucket: those of its file, routed here or not, and those given to it since. A copy."""
        return dict(self._rooms.counts)

    def lookup(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Look up the bucket of each hash, int32[n], -1 where unknown; changes nothing."""
        return self._map.lookup(_column(hashes))

    def assign_rows(self, hashes: NDArray[np.int32]) -> Assignment:
        """Assign every row to its bucket and record the new hashes.

        hashes    int32[n], hashes of the trimmed primary keys, in row order
        errors    InvalidInputError when bucket ids have run out, or max-buckets leaves this assigner none; the rows
                  before the one that failed stay assigned
        cost      one pass over the column, plus a few microseconds per bucket that fills up
        """
        hashes = _column(hashes)
        n = len(hashes)
        result = Assignment(np.empty(n, np.int32), np.zeros(n, np.bool_))
        self._fill(hashes, result)
        return result

    def _fill(self, hashes: NDArray[np.int32], result: Assignment) -> None:
        out, is_new = result.buckets, result.is_new
        row = self._map.assign(hashes, out, is_new, start=0, bucket=0, room=0)
        while row < len(hashes):
            room = self._rooms.next_room()
            if room is None:
                return self._draw(hashes[row:], out[row:], is_new[row:])
            known, (bucket, rows) = len(self._map), room
            row = self._map.assign(hashes, out, is_new, start=row, bucket=bucket, room=rows)
            self._rooms.counts[bucket] += len(self._map) - known
        return None

    def _draw(self, hashes: NDArray[np.int32], out: NDArray[np.int32], is_new: NDArray[np.bool_]) -> None:
        """Draw a bucket for each hash that is not known, in the order in which they appear."""
        self._map.assign(hashes, out, is_new, start=0, bucket=0, room=len(hashes))
        new, counts = hashes[is_new], self._rooms.counts
        picks = self._pick(np.fromiter(counts, np.int32, len(counts)), len(new))
        self._map.store(new, picks)
        out[:] = self._map.lookup(hashes)
        for bucket, drawn in enumerate(np.bincount(picks).tolist()):
            if drawn:
                counts[bucket] += drawn

    def new_counts(self) -> dict[int, int]:
        """Return how many hashes each bucket got since load, by bucket ascending."""
        new = ((bucket, hashes - self._before.get(bucket, 0)) for bucket, hashes in sorted(self._rooms.counts.items()))
        return {bucket: hashes for bucket, hashes in new if hashes}


def _column(hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    # Arrow hands out read-only arrays. Copying one costs less than compiling every kernel for that type, too.
    if not isinstance(hashes, np.ndarray) or hashes.dtype != np.int32 or hashes.ndim != 1:
        kind = f"{hashes.dtype}[{hashes.ndim} dimensions]" if isinstance(hashes, np.ndarray) else type(hashes).__name__
        raise InvalidInputError(f"key hashes must be one column of native int32, not {kind}")
    flags = hashes.flags
    return hashes if flags.c_contiguous and flags.writeable else hashes.copy()


class GrowingBuckets:
    """Fills the buckets a partition has, then opens the smallest own id that is free.

    rules    limits and ownership
    counts   hashes of own buckets, in the order these became known
    walk     the order in which buckets of `counts` are filled
    source   org.apache.paimon.index.PartitionIndex.assign, and SimpleHashBucketAssigner of a partition that is rewritten; 1.4.2
    """

    __slots__ = ("_next_own", "_rules", "_walk", "counts")

    def __init__(self, rules: AssignRules, counts: dict[int, int], walk: Iterable[int]) -> None:
        self._rules = rules
        self.counts = counts
        self._walk = deque(walk)
        self._next_own = rules.first_own_bucket

    def next_room(self) -> tuple[int, int] | None:
        """Return the bucket for the next new hashes, opened if need be, and how many go there; None when one of those that are
        there has to be drawn.

        errors    InvalidInputError when bucket ids have run out, or max-buckets leaves this assigner none
        """
        rules = self._rules
        while self._walk:
            free = rules.target_rows - self.counts[self._walk[0]]
            if free > 0:
                return self._walk[0], free
            self._walk.popleft()
        bucket = self._lowest_free()
        if bucket is not None:
            self.counts[bucket] = 0
            self._walk.append(bucket)
            self._next_own = bucket + rules.num_assigners
            return bucket, rules.target_rows
        if rules.max_buckets == -1:
            raise too_many_buckets(rules)
        if not self.counts:
            raise no_own_bucket(rules)
        return None

    def _lowest_free(self) -> int | None:
        ids = range(self._next_own, self._rules.last_bucket + 1, self._rules.num_assigners)
        return next((bucket for bucket in ids if bucket not in self.counts), None)


_FIRST_CAPACITY = 16
_TREE_BIN = 8
_TREE_CAPACITY = 64


def loaded_walk_order(files: Iterable[tuple[int, int]]) -> list[int]:
    """Order of the buckets after loading index files.

    files    (bucket, hashes in its file) as scanned, no bucket twice; a file of no hashes leaves no bucket
    returns  the buckets in Java's order; ascending when a bin would have become a tree (eight buckets that differ by
             multiples of 64 or more among the loaded ones), whose order Java derives from the tree's rotations
    """
    loaded = [(bucket, hashes) for bucket, hashes in files if hashes > 0]
    if len(loaded) < 2:
        return [bucket for bucket, _ in loaded]
    bins: list[list[int]] = [[] for _ in range(_FIRST_CAPACITY)]
    for size, (bucket, hashes) in enumerate(loaded, start=1):
        if size - 1 > len(bins) * 3 // 4:
            bins = _doubled(bins)
        chain = bins[bucket & (len(bins) - 1)]
        chain.insert(0, bucket)
        if len(chain) >= _TREE_BIN:
            if len(bins) >= _TREE_CAPACITY:
                return sorted(b for b, _ in loaded)
            bins = _doubled(bins)
        # The file's second hash calls compute again, and compute grows the table before it looks for the key.
        if hashes > 1 and size > len(bins) * 3 // 4:
            bins = _doubled(bins)
    return [bucket for chain in bins for bucket in chain]


def _doubled(bins: list[list[int]]) -> list[list[int]]:
    low = [[b for b in chain if not b & len(bins)] for chain in bins]
    high = [[b for b in chain if b & len(bins)] for chain in bins]
    return low + high
