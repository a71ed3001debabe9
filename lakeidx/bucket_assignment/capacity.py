"""Capacity for new hashes: the buckets an assigner owns in one partition, and the order in which they are filled.

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

from lakeidx.bucket_assignment.rules import AssignRules, no_own_bucket, too_many_buckets


@dataclass(frozen=True, slots=True)
class BucketCapacity:
    """The next `rows` new hashes go to `bucket`."""

    bucket: int
    rows: int


class GrowingBuckets:
    """Fills the buckets a partition has, then opens the smallest own id that is free.

    rules    limits and ownership
    counts   own buckets and their hashes, in the order they became known
    walk     the order in which buckets of `counts` are filled
    source   org.apache.paimon.index.PartitionIndex.assign, and SimpleHashBucketAssigner of a partition that is rewritten; 1.4.2
    """

    __slots__ = ("_counts", "_next_own", "_rules", "_walk")

    def __init__(self, rules: AssignRules, counts: dict[int, int], walk: Iterable[int]) -> None:
        self._rules = rules
        self._counts = counts
        self._walk = deque(walk)
        self._next_own = rules.first_own_bucket

    @property
    def counts(self) -> dict[int, int]:
        """Hashes per own bucket, in the order the buckets became known. Not a copy."""
        return self._counts

    def next_room(self) -> BucketCapacity | None:
        """Return the bucket for the next new hash, opened if need be; None when one of those there are has to be drawn.

        errors    InvalidInputError when bucket ids have run out, or max-buckets leaves this assigner none
        """
        rules = self._rules
        while self._walk:
            free = rules.target_rows - self._counts[self._walk[0]]
            if free > 0:
                return BucketCapacity(self._walk[0], free)
            self._walk.popleft()
        bucket = self._lowest_free()
        if bucket is not None:
            self._counts[bucket] = 0
            self._walk.append(bucket)
            self._next_own = bucket + rules.num_assigners
            return BucketCapacity(bucket, rules.target_rows)
        if rules.max_buckets == -1:
            raise too_many_buckets(rules)
        if not self._counts:
            raise no_own_bucket(rules)
        return None

    def record(self, bucket: int, hashes: int) -> None:
        """Record that `hashes` new hashes were assigned to `bucket`."""
        self._counts[bucket] += hashes

    def _lowest_free(self) -> int | None:
        ids = range(self._next_own, self._rules.last_bucket + 1, self._rules.num_assigners)
        return next((bucket for bucket in ids if bucket not in self._counts), None)


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
