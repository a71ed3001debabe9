"""Paimon's assigner tasks around `PartitionIndex`: what comparisons with recorded calls of the Java classes drive.

A task loads the index of a partition when a row of it first comes, and keeps it. A batch places its keys without tasks that live on
(`lakeidx.batch.assignment`). Nothing here reads a store: index files come through an `IndexLoader`.

source   org.apache.paimon.index.{HashBucketAssigner,SimpleHashBucketAssigner}, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.partition_index import Assignment, IndexedBucket, PartitionIndex
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import AssignRules, BucketPicker, assigner_of

#: Loads (bucket, hashes int32[m]) of each HASH index file of a partition, of one snapshot, in the order of the index manifest.
#: Hashes that no row of the assigner has may be left out, if the number of hashes in the file is given besides.
IndexLoader = Callable[[bytes], Sequence[IndexedBucket]]


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition and the hash of its BinaryRow.

    data  prefixed BinaryRow (arity as 4 bytes, then the row)
    hash  32-bit hash of the row without the prefix
    """

    data: bytes
    hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignPlan:
    """Shares of a job's assigner tasks in the work; fixed for the whole run of a job.

    num_channels   assigner tasks
    num_assigners  tasks that share one partition, at most num_channels. Below num_channels two tasks may fill one
                   bucket (Java's formulas allow it; keys stay in one bucket, the bucket may get up to twice its target)
    target_rows, max_buckets  as in `AssignRules`
    """

    num_channels: int
    num_assigners: int
    target_rows: int
    max_buckets: int = -1

    def rules(self, assign_id: int) -> AssignRules:
        """Make the rules of assigner task `assign_id`."""
        return AssignRules(
            target_rows=self.target_rows,
            max_buckets=self.max_buckets,
            num_assigners=self.num_assigners,
            assign_id=assign_id,
        )

    def assigner_of(self, partition_hash: int | NDArray[np.int32], key_hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the task of each row, int32[n]."""
        return assigner_of(partition_hash, key_hashes, num_channels=self.num_channels, num_assigners=self.num_assigners)


@dataclass(slots=True)
class HashBucketAssigner:
    """One assigner task.

    plan       shared by all tasks
    assign_id  which task this is, 0 to plan.num_channels - 1
    loader     brings index files; asked once per partition, when a batch first touches it. A partition that is rewritten has none
    pick       draws a bucket when no new one may be opened
    """

    plan: AssignPlan
    assign_id: int
    loader: IndexLoader
    pick: BucketPicker
    indexes: dict[bytes, PartitionIndex] = field(default_factory=dict, init=False)

    def assign(self, partition: PartitionKey, hashes: NDArray[np.int32]) -> Assignment:
        """Assign a column of keys of one partition to buckets, all of them routed here; errors as `PartitionIndex.assign_rows`."""
        if partition.data not in self.indexes:
            plan, files = self.plan, []
            for bucket, known, *counted in self.loader(partition.data):
                here = known[plan.assigner_of(partition.hash, known) == self.assign_id]
                files.append((bucket, here, counted[0] if counted else len(known)))
            self.indexes[partition.data] = PartitionIndex.load(files, rules=plan.rules(self.assign_id), pick=self.pick)
        return self.indexes[partition.data].assign_rows(hashes)


@dataclass(slots=True)
class AssignerSet:
    """All assigner tasks of a job in one process: routes the rows of a batch and puts the answers together.

    plan   shared by the tasks
    make   makes the task of a number; called when its first row comes
    """

    plan: AssignPlan
    make: Callable[[int], HashBucketAssigner]
    _tasks: dict[int, HashBucketAssigner] = field(default_factory=dict, init=False)

    def task(self, assign_id: int) -> HashBucketAssigner:
        """Return the task of a number, 0 to plan.num_channels - 1."""
        if assign_id not in self._tasks:
            self._tasks[assign_id] = self.make(assign_id)
        return self._tasks[assign_id]

    def assign(
        self, partitions: Sequence[PartitionKey], codes: NDArray[np.int32] | None, hashes: NDArray[np.int32]
    ) -> Assignment:
        """Assign the rows of a batch to buckets.

        partitions  the partitions the batch touches
        codes       int32[n]: partition of each row, an index into `partitions`; None: all rows are of the first one
        hashes      int32[n], hashes of the trimmed primary keys
        returns     buckets in row order. Rows are taken partition by partition, task by task, each in row order, which
                    is what taking them one by one gives
        errors      as `PartitionIndex.assign_rows`; InvalidInputError for a code out of range
        """
        tasks = self.plan.num_channels
        codes = np.zeros(len(hashes), np.int32) if codes is None else codes
        partition_hashes = np.array([p.hash for p in partitions], np.int32)
        routed = self.plan.assigner_of(partition_hashes[codes], hashes)
        groups = group_rows(codes * np.int32(tasks) + routed, len(partitions) * tasks)
        result = Assignment(np.empty(len(hashes), np.int32), np.empty(len(hashes), np.bool_))
        for group, rows in enumerate(groups):
            if not len(rows):
                continue
            part = self.task(group % tasks).assign(partitions[group // tasks], hashes[rows])
            result.buckets[rows] = part.buckets
            result.is_new[rows] = part.is_new
        return result
