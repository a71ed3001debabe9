"""The assigner of an overwrite: starts empty, ignores what the table holds, fills one own bucket after another.

source   org.apache.paimon.index.SimpleHashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.assigner import AssignPlan, PartitionKey
from lakeidx.bucket_assignment.partition_index import Assignment, PartitionIndex
from lakeidx.bucket_assignment.rules import BucketPicker


@dataclass(slots=True)
class SimpleHashBucketAssigner:
    """One assigner task rewriting partitions.

    plan       shared by all tasks
    assign_id  which task this is
    pick       draws a bucket when no new one may be opened
    """

    plan: AssignPlan
    assign_id: int
    pick: BucketPicker
    _indexes: dict[bytes, PartitionIndex] = field(default_factory=dict, init=False)
    _largest: int = field(default=0, init=False)

    @property
    def indexes(self) -> Mapping[bytes, PartitionIndex]:
        """The partitions written so far."""
        return self._indexes

    def assign(self, partition: PartitionKey, hashes: NDArray[np.int32]) -> Assignment:
        """Assign a column of keys of one partition to buckets. Routing is not verified (as in Java).

        hashes   int32[n], hashes of the trimmed primary keys
        errors   InvalidInputError as `PartitionIndex.assign_rows`
        """
        index = self._indexes.get(partition.data)
        if index is None:
            index = PartitionIndex.for_overwrite(rules=self.plan.rules(self.assign_id), pick=self.pick)
            self._indexes[partition.data] = index
        assignment = index.assign_rows(hashes, task_max=self._largest)
        self._largest = max(self._largest, int(assignment.buckets.max(initial=0)))
        return assignment

    def new_hashes(self) -> dict[bytes, dict[int, NDArray[np.int32]]]:
        """Return all hashes assigned: partition -> bucket -> int32[m]."""
        return {partition: index.new_hashes() for partition, index in self._indexes.items() if len(index)}
