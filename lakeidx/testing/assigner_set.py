"""All assigner tasks of a job in one process, as tests run them beside the job's own tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.assigner import AssignPlan, BucketAssigner, PartitionKey
from lakeidx.bucket_assignment.partition_index import Assignment
from lakeidx.bucket_assignment.routing import group_rows


@dataclass(slots=True)
class AssignerSet:
    """All assigner tasks of a job in one process: routes the rows of a batch and puts the answers together.

    plan   shared by the tasks
    make   makes the task of a number; called when its first row comes
    """

    plan: AssignPlan
    make: Callable[[int], BucketAssigner]
    _tasks: dict[int, BucketAssigner] = field(default_factory=dict, init=False)

    @property
    def tasks(self) -> Mapping[int, BucketAssigner]:
        """The tasks that got a row so far, by number."""
        return self._tasks

    def task(self, assign_id: int) -> BucketAssigner:
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
                    under LimitScope.PARTITION is what taking them one by one gives
        errors      as `BucketAssigner.assign`; InvalidInputError for a code out of range
        cost        index loading aside, one pass; one more and a gather when rows of several partitions or tasks mix
        """
        tasks = self.plan.num_channels
        if codes is None and tasks == 1:
            return self.task(0).assign(partitions[0], hashes)
        codes = np.zeros(len(hashes), np.int32) if codes is None else codes
        if tasks == 1:
            groups = group_rows(codes, len(partitions))
        else:
            partition_hashes = np.array([p.hash for p in partitions], np.int32)
            routed = self.plan.assigner_of(partition_hashes[codes], hashes)
            groups = group_rows(codes * np.int32(tasks) + routed, len(partitions) * tasks)
        result = Assignment(np.empty(len(hashes), np.int32), np.empty(len(hashes), np.bool_))
        for group in np.flatnonzero(np.diff(groups.starts)).tolist():
            rows = groups.rows(group)
            part = self.task(group % tasks).assign(partitions[group // tasks], hashes[rows])
            result.buckets[rows] = part.buckets
            result.is_new[rows] = part.is_new
        return result

    def new_hashes(self) -> dict[bytes, dict[int, NDArray[np.int32]]]:
        """Collect the new hashes of all tasks: partition -> bucket -> int32[m]; a bucket that two tasks filled has both parts."""
        found: dict[bytes, dict[int, NDArray[np.int32]]] = {}
        for _, task in sorted(self._tasks.items()):
            for partition, buckets in task.new_hashes().items():
                into = found.setdefault(partition, {})
                for bucket, hashes in buckets.items():
                    into[bucket] = np.concatenate([into[bucket], hashes]) if bucket in into else hashes
        return found
