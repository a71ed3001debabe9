"""Paimon's assigner tasks around `PartitionIndex`: what comparisons with recorded calls of the Java classes drive.

A task loads the index of a partition when a batch first touches it, and drops it when nothing writes to it any more, as a
streaming job does. A batch places its keys without tasks that live on (`lakeidx.batch.assignment`). Nothing here reads a
store: index files come through an `IndexLoader`.

source   org.apache.paimon.index.{HashBucketAssigner,SimpleHashBucketAssigner}, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.partition_index import Assignment, IndexedBucket, PartitionIndex
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import AssignPlan, BucketPicker
from lakeidx.errors import InternalError


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
        plan, files = self.plan, []
        for bucket, hashes, *counted in self.loader.load(partition.data):
            here = hashes[plan.assigner_of(partition.hash, hashes) == self.assign_id]
            files.append((bucket, here, counted[0] if counted else len(hashes)))
        return PartitionIndex.load(files, rules=plan.rules(self.assign_id), pick=self.pick)

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


@dataclass(slots=True)
class SimpleHashBucketAssigner:
    """One assigner task rewriting partitions: starts empty, whatever the table holds.

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
