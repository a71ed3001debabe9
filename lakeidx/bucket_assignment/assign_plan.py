"""How the assigner tasks of a job share the keys, and which rules each of them follows.

A key goes to a task by its partition and its own hash (`routing`), and each task opens and fills only bucket ids of its
own, so that tasks never have to talk to each other.

source   org.apache.paimon.index.HashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.routing import assigner_of
from lakeidx.bucket_assignment.rules import INITIAL_BUCKETS_OPTION, PARALLELISM_OPTION, AssignRules, LimitScope
from lakeidx.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignPlan:
    """How a job's assigner tasks share the work; fixed for the whole run of a job.

    num_channels   assigner tasks
    num_assigners  tasks that share one partition, at most num_channels. Below num_channels two tasks may fill one
                   bucket (Java's formulas allow it; keys stay in one bucket, the bucket may get up to twice its target)
    target_rows, max_buckets, limit_scope  as in `AssignRules`
    """

    num_channels: int = 1
    num_assigners: int = 1
    target_rows: int
    max_buckets: int = -1
    limit_scope: LimitScope = LimitScope.PARTITION

    def __post_init__(self) -> None:
        if not 1 <= self.num_assigners <= self.num_channels:
            raise InvalidInputError(
                f"{self.num_assigners} assigners on {self.num_channels} tasks: at least one, and no more than tasks"
            )
        self.rules(0)

    @classmethod
    def from_options(
        cls,
        *,
        parallelism: int,
        target_rows: int,
        max_buckets: int = -1,
        initial_buckets: int | None = None,
        assigner_parallelism: int | None = None,
    ) -> AssignPlan:
        """Make the plan by the dynamic-bucket options of a table.

        parallelism           tasks to use unless dynamic-bucket.assigner-parallelism says otherwise
        target_rows           dynamic-bucket.target-row-num
        max_buckets           dynamic-bucket.max-buckets
        initial_buckets       dynamic-bucket.initial-buckets: at most so many tasks are used
        assigner_parallelism  dynamic-bucket.assigner-parallelism
        returns               a plan with as many tasks as share a partition (an idle task would be of no use here), and
                              never more of them than max_buckets, so that each owns a bucket id
        errors                InvalidInputError for a number out of range, naming its option
        """
        for option, value in ((INITIAL_BUCKETS_OPTION, initial_buckets), (PARALLELISM_OPTION, assigner_parallelism)):
            if value is not None and value < 1:
                raise InvalidInputError(f"must be at least 1, not {value}", path=option)
        tasks = parallelism if assigner_parallelism is None else assigner_parallelism
        if initial_buckets is not None:
            tasks = min(tasks, initial_buckets)
        if max_buckets != -1:
            tasks = min(tasks, max(max_buckets, 1))
        return cls(num_channels=tasks, num_assigners=tasks, target_rows=target_rows, max_buckets=max_buckets)

    def rules(self, assign_id: int) -> AssignRules:
        """Make the rules of assigner task `assign_id`."""
        return AssignRules(
            target_rows=self.target_rows,
            max_buckets=self.max_buckets,
            num_assigners=self.num_assigners,
            assign_id=assign_id,
            limit_scope=self.limit_scope,
        )

    def assigner_of(self, partition_hash: int | NDArray[np.int32], key_hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the task of each row, int32[n]; see `lakeidx.bucket_assignment.routing.assigner_of`."""
        return assigner_of(partition_hash, key_hashes, num_channels=self.num_channels, num_assigners=self.num_assigners)
