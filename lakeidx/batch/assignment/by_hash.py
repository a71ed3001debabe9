"""Placing through the HASH index of dynamic-bucket tables: a known hash keeps its bucket, a new one is assigned by the rules.

The index is not held: per partition its files are read once, side by side, and only hashes that the batch may have are kept;
how many hashes a bucket holds is in the index manifest. Tasks are sent what is theirs of the files
(`lakeidx.batch.assignment.sent_index`). The rules are those of `PartitionIndex`.

source   org.apache.paimon.index.HashBucketAssigner, SimpleHashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.part_keys import PartKeys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.placed import PartPlaces, Place, Placed, RowCounts
from lakeidx.bucket_assignment.partition_index import Assignment, PartitionIndex
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets
from lakeidx.bucket_assignment.whole_columns import MIN_ROWS, ColumnsAssignment, assign_columns
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.key_buckets import FoundHashes, HashIndex, find_hits, hash_entries
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.ordered_threads import run_ordered

Hashes = NDArray[np.int32]
_Read = tuple[Sequence[Hashes], list[FoundHashes]]
"""Hashes of a batch, and what index files have of them."""

#: Index files read at a time, over so many partitions, and bytes of what was found in them that wait for their turn.
_REQUESTS, _PARTITIONS_AHEAD, _READ_AHEAD_BYTES = 32, 16, 64 << 20


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """The files of the table.

    files   by partition and bucket; none when a batch replaces what is there
    """

    metadata: TableMetadata
    schema: TableSchema
    files: Mapping[bytes, Mapping[int, IndexEntry]]

    @classmethod
    def of(cls, work: PlaceWork, partitions: Collection[bytes]) -> StoredIndex:
        """Find the files of some partitions."""
        found = {} if work.fresh else hash_entries(work.metadata, work.snapshot, partitions)
        return cls(work.metadata, work.schema, found)

    @property
    def waits(self) -> bool:
        """See `HashIndex.waits`."""
        return any(self.files.values())

    def hits(self, partition: bytes, columns: Sequence[Hashes], *, threads: int) -> list[FoundHashes]:
        """See `HashIndex.hits`."""
        entries = [entry for _, entry in sorted(self.files.get(partition, {}).items())]
        found = find_hits(self.metadata, self.schema, entries, columns, threads=threads)
        return [(hits.entry.bucket, hits.known, hits.entry.row_count) for hits in found]


@dataclass(slots=True)
class HashPlacing:
    """The rules of one batch or of a task's share of it, partition after partition.

    index        has nothing when the batch replaces what is there
    fresh        the batch replaces what is there: buckets are filled again from 0
    new_hashes   hashes that each bucket got and did not have
    rows_read    hashes in the index files that were read
    """

    index: HashIndex
    rules: AssignRules
    pick: RandomBuckets
    fresh: bool
    new_hashes: dict[Place, int] = field(default_factory=dict)
    rows_read: int = 0

    @classmethod
    def of(cls, work: PlaceWork, index: HashIndex, task: int | None) -> HashPlacing:
        """Make the rules of the process that places a batch, or of one of its placing tasks."""
        return cls(index, work.rules(task), work.pick(task), work.fresh)

    def place_each(self, batch: Sequence[tuple[bytes, Callable[[], Sequence[Hashes]]]]) -> Iterator[list[Assignment]]:
        """Place one partition after another, in order, and prefetch the index files of the next ones.

        batch     partitions, and what gives the columns of each: int32[n], hashes of trimmed primary keys in batch order
        errors    CorruptFileError for a damaged index file, NotFoundError; InvalidInputError when bucket ids have run out
        """
        side_by_side = max(1, min(_PARTITIONS_AHEAD, len(batch))) if self.index.waits else 1
        requests = max(2, _REQUESTS // side_by_side)

        def read(item: tuple[bytes, Callable[[], Sequence[Hashes]]]) -> Iterator[_Read]:
            columns = item[1]()
            yield columns, self.index.hits(item[0], columns, threads=requests)

        found = run_ordered(batch, read, _size_of, threads=side_by_side, budget_bytes=_READ_AHEAD_BYTES)
        for (partition, _), (columns, files) in zip(batch, found, strict=True):
            yield self._place(partition, columns, files)

    def _place(self, partition: bytes, columns: Sequence[Hashes], files: Sequence[FoundHashes]) -> list[Assignment]:
        self.rows_read += sum(rows for _, _, rows in files)
        placed = None
        if sum(len(hashes) for hashes in columns) >= MIN_ROWS:
            placed = assign_columns(columns, files, rules=self.rules, pick=self.pick, overwrite=self.fresh)
        if placed is None:
            placed = self._by_map(files, columns)
        for bucket, count in placed.new_counts.items():
            self.new_hashes[partition, bucket] = count
        return placed.columns

    def _by_map(self, files: Sequence[FoundHashes], columns: Sequence[Hashes]) -> ColumnsAssignment:
        """Assign row by row through a map of the hashes."""
        if self.fresh:
            index = PartitionIndex.for_overwrite(rules=self.rules, pick=self.pick)
        else:
            index = PartitionIndex.load(files, rules=self.rules, pick=self.pick)
        return ColumnsAssignment([index.assign_rows(hashes) for hashes in columns], index.new_counts())


def _size_of(read: _Read) -> int:
    columns, files = read
    return sum(c.nbytes for c in columns) + sum(known.nbytes for _, known, _ in files)


def place_by_hash(
    work: PlaceWork, parts: Sequence[PartKeys], task: int | None, index: HashIndex | None = None
) -> Placed:
    """Place rows, partition by partition, rows of a partition in batch order.

    task    the placing task whose share they are; None: all rows are
    index   what has come to that task of the index; None: the files of the table are read
    """
    if index is None:
        index = StoredIndex.of(work, {p for part in parts for p in part.keys.partitions})
    placing = HashPlacing.of(work, index, task)
    # Memory is taken when it is written to: parts of one partition take over what placing gives.
    buckets = [np.empty(len(p.keys), np.int32) for p in parts]
    known = [np.empty(len(p.keys), np.bool_) for p in parts]
    groups = [None if len(p.keys.partitions) < 2 else group_rows(p.keys.codes, len(p.keys.partitions)) for p in parts]
    rows_of: dict[bytes, list[tuple[int, slice | NDArray[np.int64]]]] = {}
    for i, (part, group) in enumerate(zip(parts, groups, strict=True)):
        for number, partition in enumerate(part.keys.partitions):
            rows_of.setdefault(partition, []).append((i, slice(None) if group is None else group.rows(number)))

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
