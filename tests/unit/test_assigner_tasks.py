"""Assigner tasks: loading, eviction, routing, putting the answers of several tasks together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.rules import AssignPlan, RandomBuckets
from lakeidx.errors import InternalError, UnavailableError
from tests.kit.assigner_tasks import (
    AssignerSet,
    HashBucketAssigner,
    NoFiles,
    PartitionKey,
    SimpleHashBucketAssigner,
)

A, B, C = (PartitionKey(bytes([i]), 1000 + i) for i in range(3))


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


@dataclass
class Files:
    """A loader that notes what was asked for."""

    files: dict[bytes, list[tuple[int, NDArray[np.int32]]]] = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)

    def load(self, partition: bytes) -> list[tuple[int, NDArray[np.int32]]]:
        self.asked.append(partition)
        return self.files.get(partition, [])


def pick() -> RandomBuckets:
    return RandomBuckets(1)


def single(files: Files, target_rows: int = 2) -> HashBucketAssigner:
    return HashBucketAssigner(AssignPlan(target_rows=target_rows), 0, files, pick())


def test_only_partitions_that_are_touched_are_loaded_and_only_once() -> None:
    files = Files({B.data: [(5, column([7, 8, 9]))]})
    assigner = single(files)
    assert assigner.assign(B, column([8, 1])).buckets.tolist() == [5, 0]
    assert assigner.assign(B, column([2, 3])).buckets.tolist() == [0, 1]
    assert assigner.assign(A, column([8])).buckets.tolist() == [0]
    assert files.asked == [B.data, A.data]
    assert set(assigner.indexes) == {A.data, B.data}
    assert assigner.memory_bytes > 0


def test_a_partition_whose_loading_fails_is_loaded_again() -> None:
    class Flaky(Files):
        def load(self, partition: bytes) -> list[tuple[int, NDArray[np.int32]]]:
            found = super().load(partition)
            if len(self.asked) == 1:
                raise UnavailableError("slow down")
            return found

    assigner = single(Flaky({A.data: [(3, column([1]))]}))
    with pytest.raises(UnavailableError):
        assigner.assign(A, column([1]))
    assert assigner.assign(A, column([1])).buckets.tolist() == [3]


def test_new_hashes_are_those_of_the_batch() -> None:
    assigner = single(Files({A.data: [(0, column([1, 2]))]}))
    assigner.assign(A, column([1, 2, 3]))
    assigner.assign(B, column([1]))
    found = {p: {b: sorted(h.tolist()) for b, h in new.items()} for p, new in assigner.new_hashes().items()}
    assert found == {A.data: {1: [3]}, B.data: {0: [1]}}
    assigner.forget_new()
    assert assigner.new_hashes() == {}
    assert assigner.assign(A, column([3])).buckets.tolist() == [1]


def test_rows_of_other_tasks_are_refused_and_nothing_is_assigned() -> None:
    plan = AssignPlan(num_channels=3, num_assigners=3, target_rows=9)
    hashes = np.arange(30, dtype=np.int32)
    tasks = plan.assigner_of(A.hash, hashes)
    assigner = HashBucketAssigner(plan, 1, NoFiles(), pick())
    mine = hashes[tasks == 1]
    with pytest.raises(InternalError, match=r"1 of 11 keys came to assigner 1 .* row 10 \(hash \d+\) to assigner 2"):
        assigner.assign(A, np.append(mine, hashes[tasks == 2][:1]))
    assert assigner.indexes == {}
    assert set(assigner.assign(A, mine).buckets.tolist()) == {1, 4}


class Committed:
    """The newest commit identifier of our user, and whether it was asked for."""

    def __init__(self, identifier: int | None) -> None:
        self.identifier = identifier
        self.asked = 0

    def __call__(self) -> int | None:
        self.asked += 1
        return self.identifier


def test_a_partition_leaves_when_it_is_idle_and_its_commit_has_landed() -> None:
    files = Files()
    assigner = single(files)
    assigner.assign(A, column([1]))
    assigner.assign(B, column([1]))
    first = Committed(99)
    assert assigner.prepare_commit(10, first) == []
    assert first.asked == 0, "before the first commit the answer does not matter"
    assigner.assign(B, column([2]))
    # A is idle, but commit 10, which holds its hashes, has not landed.
    assert assigner.prepare_commit(11, Committed(9)) == []
    assert assigner.prepare_commit(12, Committed(None)) == []
    assert set(assigner.indexes) == {A.data, B.data}
    # Now commit 10 has: A goes. B was last touched for commit 11 and stays.
    assert assigner.prepare_commit(13, Committed(10)) == [A.data]
    assert assigner.prepare_commit(14, Committed(11)) == [B.data]
    assert assigner.indexes == {}
    assigner.assign(A, column([5]))
    assert files.asked == [A.data, B.data, A.data]


def test_an_evicted_partition_forgets_hashes_that_were_never_committed() -> None:
    assigner = single(Files({A.data: [(2, column([1]))]}), target_rows=1)
    assert assigner.assign(A, column([1, 50])).buckets.tolist() == [2, 0]
    assigner.prepare_commit(1, Committed(None))
    assigner.prepare_commit(2, Committed(1))
    assert assigner.assign(A, column([60, 50])).buckets.tolist() == [0, 1]


def job(plan: AssignPlan, files: Files) -> AssignerSet:
    return AssignerSet(plan, lambda task: HashBucketAssigner(plan, task, files, pick()))


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_set_gives_what_its_tasks_give_row_by_row(tasks: int) -> None:
    rng = np.random.default_rng(2)
    plan = AssignPlan(num_channels=tasks, num_assigners=tasks, target_rows=7)
    partitions = [A, B, C]
    codes = rng.integers(0, 3, 900).astype(np.int32)
    hashes = rng.integers(-150, 150, 900).astype(np.int32)
    together = job(plan, Files()).assign(partitions, codes, hashes)
    alone = job(plan, Files())
    for row in range(900):
        partition = partitions[codes[row]]
        task = int(plan.assigner_of(partition.hash, hashes[row : row + 1])[0])
        got = alone.task(task).assign(partition, hashes[row : row + 1])
        assert (together.buckets[row], together.is_new[row]) == (got.buckets[0], got.is_new[0])


def test_several_tasks_never_place_a_key_twice_nor_overfill() -> None:
    plan = AssignPlan(num_channels=4, num_assigners=4, target_rows=50)
    found = job(plan, Files())
    hashes = np.random.default_rng(8).integers(-(2**31), 2**31, 4000).astype(np.int32)
    first = found.assign([A], None, hashes)
    assert found.assign([A], None, hashes).buckets.tolist() == first.buckets.tolist()
    new = found.new_hashes()[A.data]
    placed = np.concatenate(list(new.values()))
    assert sorted(placed.tolist()) == sorted(set(hashes.tolist()))
    assert max(len(h) for h in new.values()) == 50
    for task, assigner in found.tasks.items():
        assert all(b % 4 == task for index in assigner.indexes.values() for b in index.buckets.tolist())


def test_new_hashes_of_a_bucket_that_two_tasks_filled_are_put_together() -> None:
    # Three tasks of which two share a partition: tasks 2 and 0 both own the even buckets of this one (a habit of Java).
    plan = AssignPlan(num_channels=3, num_assigners=2, target_rows=100)
    partition = PartitionKey(b"p", 2)
    found = job(plan, Files())
    hashes = np.arange(40, dtype=np.int32)
    assert found.assign([partition], None, hashes).buckets.tolist() == [0] * 40
    assert set(found.tasks) == {0, 2}
    assert sorted(found.new_hashes()[b"p"][0].tolist()) == hashes.tolist()


def test_overwrite_ignores_what_is_there() -> None:
    plan = AssignPlan(target_rows=2, max_buckets=2)
    simple = SimpleHashBucketAssigner(plan, 0, pick())
    assert simple.assign(A, column([1, 2, 1, 3])).buckets.tolist() == [0, 0, 0, 1]
    assert set(simple.assign(A, column(range(10, 60))).buckets.tolist()) == {0, 1}
    assert simple.assign(B, column([9])).buckets.tolist() == [0]
    assert {p: sum(len(h) for h in new.values()) for p, new in simple.new_hashes().items()} == {A.data: 53, B.data: 1}
    assert AssignerSet(plan, lambda task: simple).assign([C], None, column([4, 4])).is_new.tolist() == [True, False]
