"""Placing through the HASH index of dynamic-bucket tables: a known hash keeps its bucket, a new one is assigned by the rules.

The index is not held: per partition its files are read once, side by side, and only hashes that the rows may have are kept; how
many hashes a bucket holds is in the index manifest. Each placing task reads the files for its own rows, as Java's assigners do. The
rules are those of `PartitionIndex`.

source   org.apache.paimon.index.HashBucketAssigner, SimpleHashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.placement import PartPlaces, Place, Placed, PlaceWork, RowCounts
from lakeidx.batch.assignment.row_keys import PartKeys
from lakeidx.bucket_assignment.partition_index import Assignment, PartitionIndex
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.table.key_buckets import IndexHits, find_hits, hash_entries
from lakeidx.tasks.in_parallel import run_ordered

Hashes = NDArray[np.int32]
_Read = tuple[Sequence[Hashes], list[IndexHits]]
"""Hashes of a batch, and what index files have of them."""

#: Index files read at a time, over so many partitions, and bytes of what was found in them that wait for their turn.
_REQUESTS, _PARTITIONS_AHEAD, _READ_AHEAD_BYTES = 32, 16, 64 << 20


@dataclass(slots=True)
class HashPlacing:
    """The rules of one batch or of a task's share of it, partition after partition.

    files        HASH index files by partition and bucket; none when the batch replaces what is there
    new_hashes   hashes that each bucket got and did not have
    rows_read    hashes in the index files that were read
    """

    work: PlaceWork
    rules: AssignRules
    pick: RandomBuckets
    files: Mapping[bytes, Mapping[int, IndexEntry]]
    new_hashes: dict[Place, int] = field(default_factory=dict)
    rows_read: int = 0

    @classmethod
    def of(cls, work: PlaceWork, partitions: Collection[bytes], task: int) -> HashPlacing:
        """Make the rules of a placing task."""
        files = {} if work.fresh else hash_entries(work.metadata, work.snapshot, partitions)
        return cls(work, work.rules_of(task), work.pick(task), files)

    def place_each(self, batch: Sequence[tuple[bytes, Callable[[], Sequence[Hashes]]]]) -> Iterator[list[Assignment]]:
        """Place one partition after another, in order, and prefetch the index files of the next ones.

        batch     partitions, and what gives the columns of each: int32[n], hashes of trimmed primary keys in batch order
        errors    CorruptFileError for a damaged index file, NotFoundError; InvalidInputError when bucket ids have run out
        """
        side_by_side = max(1, min(_PARTITIONS_AHEAD, len(batch))) if any(self.files.values()) else 1
        requests = max(2, _REQUESTS // side_by_side)

        def read(item: tuple[bytes, Callable[[], Sequence[Hashes]]]) -> Iterator[_Read]:
            columns = item[1]()
            entries = list(self.files.get(item[0], {}).values())
            yield columns, find_hits(self.work.metadata, self.work.schema, entries, columns, threads=requests)

        found = run_ordered(batch, read, _size_of, threads=side_by_side, budget_bytes=_READ_AHEAD_BYTES)
        for (partition, _), (columns, hits) in zip(batch, found, strict=True):
            yield self._place(partition, columns, hits)

    def _place(self, partition: bytes, columns: Sequence[Hashes], hits: Sequence[IndexHits]) -> list[Assignment]:
        self.rows_read += sum(h.entry.row_count for h in hits)
        files = [(h.entry.bucket, h.known, h.entry.row_count) for h in hits]
        index = PartitionIndex.load(files, rules=self.rules, pick=self.pick)
        index.reserve(sum(map(len, columns)))
        placed = [index.assign_rows(hashes) for hashes in columns]
        for bucket, count in index.new_counts().items():
            self.new_hashes[partition, bucket] = count
        return placed


def _size_of(read: _Read) -> int:
    columns, hits = read
    return sum(c.nbytes for c in columns) + sum(h.known.nbytes for h in hits)


def place_by_hash(work: PlaceWork, parts: Sequence[PartKeys], task: int) -> Placed:
    """Place the rows of a placing task, partition by partition, rows of a partition in batch order."""
    placing = HashPlacing.of(work, {p for part in parts for p in part.keys.partitions}, task)
    # Memory is taken when it is written to: parts of one partition take over what placing gives.
    buckets = [np.empty(len(p.keys), np.int32) for p in parts]
    known = [np.empty(len(p.keys), np.bool_) for p in parts]
    groups = [None if len(p.keys.partitions) < 2 else group_rows(p.keys.codes, len(p.keys.partitions)) for p in parts]
    rows_of: dict[bytes, list[tuple[int, slice | NDArray[np.int64]]]] = {}
    for i, (part, group) in enumerate(zip(parts, groups, strict=True)):
        for number, partition in enumerate(part.keys.partitions):
            rows_of.setdefault(partition, []).append((i, slice(None) if group is None else group[number]))

    def columns_of(mine: list[tuple[int, slice | NDArray[np.int64]]]) -> list[Hashes]:
        return [parts[i].keys.hashes[rows] for i, rows in mine]

    each = placing.place_each([(p, partial(columns_of, mine)) for p, mine in rows_of.items()])
    for mine, placed in zip(rows_of.values(), each, strict=True):
        for (i, rows), assigned in zip(mine, placed, strict=True):
            if isinstance(rows, slice):
                buckets[i], known[i] = assigned.buckets, ~assigned.is_new
            else:
                buckets[i][rows], known[i][rows] = assigned.buckets, ~assigned.is_new
    counts = RowCounts()
    for part, there in zip(parts, known, strict=True):
        counts.add(len(part.keys), there, part.retract)
    return Placed(
        parts=[
            PartPlaces(p.rows, p.keys.partitions, p.keys.codes, b, p.ranks) for p, b in zip(parts, buckets, strict=True)
        ],
        counts=counts,
        new_hashes=placing.new_hashes,
        metrics={"index_hashes_loaded": float(placing.rows_read)},
    )
