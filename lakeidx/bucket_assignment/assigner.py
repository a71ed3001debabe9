"""Assigners: who places the keys of which partition, with every partition's index loaded when a batch first touches it.

A job has `num_channels` assigner tasks. A key goes to one of them by its partition and its own hash (`routing`), and
each task opens and fills only bucket ids of its own, so that tasks never have to talk to each other.

Nothing here reads a store: index files come through an `IndexLoader`.

source   org.apache.paimon.index.HashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.partition_index import Assignment, IndexedBucket, PartitionIndex
from lakeidx.bucket_assignment.routing import assigner_of
from lakeidx.bucket_assignment.rules import (
    INITIAL_BUCKETS_OPTION,
    PARALLELISM_OPTION,
    AssignRules,
    BucketPicker,
    LimitScope,
)
from lakeidx.errors import InternalError, InvalidInputError


class IndexLoader(Protocol):
    """Brings the HASH index files of a partition, all from one snapshot."""

    def load(self, partition: bytes) -> Sequence[IndexedBucket]:
        """Load (bucket, hashes int32[m]) of each file, in the order of the index manifest; empty for a new partition.

        Hashes that no row of the assigner has may be left out, if the number of hashes in the file is given besides.
        partition  prefixed BinaryRow
        """
        ...


class NoFiles:
    """The loader of a table that has no hash index yet."""

    def load(self, partition: bytes) -> Sequence[IndexedBucket]:
        """Return no files."""
        return ()


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
        """Make the plan that the dynamic-bucket options of a table ask for.

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


class BucketAssigner(Protocol):
    """One assigner task."""

    def assign(self, partition: PartitionKey, hashes: NDArray[np.int32]) -> Assignment:
        """Assign a column of keys of one partition to buckets."""
        ...

    def new_hashes(self) -> dict[bytes, dict[int, NDArray[np.int32]]]:
        """Return the hashes recorded and not yet called committed: partition -> bucket -> int32[m]."""
        ...

    @property
    def indexes(self) -> Mapping[bytes, PartitionIndex]:
        """The partitions in memory."""
        ...


@dataclass(slots=True)
class _Cached:
    index: PartitionIndex
    accessed: bool = True
    last_access: int | None = None  # commit identifier of the last prepare_commit that found it accessed


@dataclass(slots=True)
class HashBucketAssigner:
    """One assigner task writing into a table that has data.

    plan       shared by all tasks
    assign_id  which task this is, 0 to plan.num_channels - 1
    loader     brings index files; asked once per partition, when a batch first touches it
    pick       draws a bucket when no new one may be opened
    """

    plan: AssignPlan
    assign_id: int
    loader: IndexLoader
    pick: BucketPicker
    _cache: dict[bytes, _Cached] = field(default_factory=dict, init=False)
    _largest: int = field(default=0, init=False)

    @property
    def indexes(self) -> Mapping[bytes, PartitionIndex]:
        """The index of each partition that was requested."""
        return {partition: cached.index for partition, cached in self._cache.items()}

    @property
    def memory_bytes(self) -> int:
        """Bytes held by all partitions in memory."""
        return sum(cached.index.memory_bytes for cached in self._cache.values())

    def assign(self, partition: PartitionKey, hashes: NDArray[np.int32]) -> Assignment:
        """Assign a column of keys of one partition to buckets, all of them routed here.

        hashes   int32[n], hashes of the trimmed primary keys
        errors   InternalError when a row belongs to another task; nothing is assigned then.
                 InvalidInputError as `PartitionIndex.assign_rows`; what `IndexLoader.load` raises
        """
        if self.plan.num_channels > 1:
            self._check_routing(partition, hashes)
        cached = self._cache.get(partition.data)
        if cached is None:
            cached = self._cache[partition.data] = _Cached(self._load(partition))
        cached.accessed = True
        assignment = cached.index.assign_rows(hashes, task_max=self._largest)
        self._largest = max(self._largest, int(assignment.buckets.max(initial=0)))
        return assignment

    def _check_routing(self, partition: PartitionKey, hashes: NDArray[np.int32]) -> None:
        tasks = self.plan.assigner_of(partition.hash, hashes)
        wrong = np.flatnonzero(tasks != self.assign_id)
        if len(wrong):
            row = int(wrong[0])
            raise InternalError(
                f"{len(wrong)} of {len(hashes)} keys came to assigner {self.assign_id} but belong to others: "
                f"row {row} (hash {hashes[row]}) to assigner {tasks[row]}"
            )

    def _load(self, partition: PartitionKey) -> PartitionIndex:
        plan = self.plan

        def routed_here(hashes: NDArray[np.int32]) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = plan.assigner_of(partition.hash, hashes) == self.assign_id
            return found

        return PartitionIndex.load(
            self.loader.load(partition.data),
            rules=plan.rules(self.assign_id),
            pick=self.pick,
            routed_here=None if plan.num_channels == 1 else routed_here,
        )

    def new_hashes(self) -> dict[bytes, dict[int, NDArray[np.int32]]]:
        """Return hashes recorded since load or `forget_new`: partition -> bucket -> int32[m]; only partitions that have some."""
        found = {partition: cached.index.new_hashes() for partition, cached in self._cache.items()}
        return {partition: buckets for partition, buckets in found.items() if buckets}

    def forget_new(self) -> None:
        """Call everything recorded so far committed; it stays known."""
        for cached in self._cache.values():
            cached.index.forget_new()

    def prepare_commit(self, commit_identifier: int, latest_committed: Callable[[], int | None]) -> list[bytes]:
        """Drop the partitions that are no longer written to, and start a new round.

        commit_identifier  of the commit being prepared
        latest_committed   gives the identifier of the newest snapshot of this commit user, None if it has none; asked
                           only when the answer matters
        returns            the partitions dropped: not accessed since the previous call, and everything recorded in them
                           belongs to a commit that is known to have landed
        """
        rounds = [cached.last_access for cached in self._cache.values() if cached.last_access is not None]
        committed = latest_committed() if rounds else None
        dropped = []
        for partition, cached in list(self._cache.items()):
            if cached.accessed:
                cached.last_access = commit_identifier
            elif committed is not None and cached.last_access is not None and cached.last_access <= committed:
                del self._cache[partition]
                dropped.append(partition)
            cached.accessed = False
        return dropped
