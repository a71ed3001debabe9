"""Rows placed in tasks: they are placed as well as in one process, and what comes back does not grow with rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport
from lakeidx.batch.assignment.committed_keys import CommittedKeys
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.batch.index_types import _in_memory
from lakeidx.tasks.runner import LocalRunner
from tests.kit.index_history import (
    IndexedTable,
    Model,
    Row,
    apply,
    fixed_history,
    hbase_stand_in,
    options_of,
)
from tests.kit.small_tables import make_table, rows
from tests.kit.upserts import upsert_table
from tests.unit.batch.test_index_faults import POINTS, DeathError
from tests.unit.key_index.hbase.test_hbase_index import StandIn

#: Types whose keys are placed in tasks when a batch is more than the driver may hold.
TYPES = [
    *((n, False) for n in ("hash", "fixed buckets", "bucket", "bucket ring", "simple", "bloom", "bloom cache")),
    *((n, False) for n in ("state", "inmemory")),
    *((n, True) for n in ("global-simple", "global-bloom", "hbase", "state", "inmemory", "cross-partition")),
]


@pytest.fixture(autouse=True)
def hbase() -> Iterator[None]:
    with hbase_stand_in(StandIn()):
        yield


class MeteredRunner:
    """A runner in this process: functions come pickled, and bytes are counted by stage.

    received   of the results that reach its caller
    sent       of the largest function, without items and targets
    """

    def __init__(self, parallelism: int = 3) -> None:
        self.inner = LocalRunner(1)
        self.parallelism = parallelism
        self.received: dict[str, int] = {}
        self.sent: dict[str, int] = {}

    def _weigh(self, label: str, *functions: Any) -> None:
        sizes = [len(cloudpickle.dumps(f)) for f in functions]  # type: ignore[no-untyped-call]
        stage = label.partition(":")[0]
        self.sent[stage] = max(self.sent.get(stage, 0), *sizes)

    def _count(self, label: str, results: list[Any]) -> list[Any]:
        stage = label.partition(":")[0]
        dumped: list[bytes] = [cloudpickle.dumps(r) for r in results]  # type: ignore[no-untyped-call]
        size = sum(map(len, dumped))
        self.received[stage] = self.received.get(stage, 0) + size
        return results

    def map(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        self._weigh(label, task)
        return self._count(label, self.inner.map(task, items, label=label))

    def shuffle(
        self, work: Any, items: Sequence[Any], *, targets: Any, weights: Sequence[int], label: str
    ) -> list[Any]:
        self._weigh(label, work.split, work.combine)
        work, items = cloudpickle.loads(cloudpickle.dumps((work, list(items))))  # type: ignore[no-untyped-call]
        made = self.inner.shuffle(work, items, targets=targets, weights=weights, label=label)
        return self._count(label, made)


def put(table: Table, batch_id: str, batch: pa.Table, runner: Any) -> BatchResult:
    """Upsert by a process that may hold nothing of the batch."""
    context = make_context(Table.open(table.uri).metadata, batch_id, runner=runner, driver_bytes=0)
    return upsert_table(context, batch)


def as_rows(batch: Sequence[Row]) -> pa.Table:
    return rows([(p, k, v) for p, k, v, _ in batch], [kind for *_, kind in batch])


#: A type for each way through the tasks, in the fast lane: hashes, joined keys, checked files.
_LIGHT = ("hash", "simple", "bloom")


@pytest.mark.share(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize(("name", "over_partitions"), TYPES)
def test_a_history_of_batches_placed_in_tasks(tmp_path: Path, name: str, over_partitions: bool, tasks: int) -> None:
    """Every other batch is placed in this process: both ways go on from what the other one left."""
    model: Model = {}
    table = IndexedTable.make(tmp_path, name, options_of(name, over_partitions))
    for number, batch in enumerate(fixed_history(11, batches=7)):
        apply(model, batch, over_partitions=over_partitions)
        if number % 3 == 2:
            table.upsert(batch, f"b{number}")
            continue
        result = put(table.table, f"b{number}", as_rows(batch), MeteredRunner(tasks))
        assert result.assign.in_tasks
        assert result.assign.rows == len(batch)
        assert name != "state" or not number or result.assign.index_metrics["state_keys_read"] == 0
        assert sum(t.rows for t in result.assign.targets) == len(batch) + result.assign.moved - result.assign.dropped
    table.compact()
    table.check(model)


@pytest.mark.parametrize("in_tasks", [False, True])
def test_keys_of_partitions_that_are_left_out_are_not_found(tmp_path: Path, in_tasks: bool) -> None:
    """A state of one partition, rebuilt in memory or found in the files by tasks: what is in the other one is new to it."""
    options = {"index.type": "inmemory", "index.partition.regex": "p=1"}
    table = make_table(tmp_path, options=options)
    for number, batch in enumerate(([(1, 1, "a"), (2, 2, "a")], [(2, 1, "b"), (1, 2, "b")])):
        _in_memory.clear()
        held = 0 if in_tasks else None
        context = make_context(Table.open(table.uri).metadata, str(number), driver_bytes=held)
        result = upsert_table(context, rows(batch))
        assert result.assign.in_tasks == in_tasks
        assert bool(result.assign.located_paths) != in_tasks
    assert (result.assign.moved, result.assign.inserts, result.assign.updates) == (1, 1, 1)
    found = Table.open(table.uri).scan().to_arrow().to_pylist()
    assert sorted((r["p"], r["k"], r["v"]) for r in found) == [(1, 2, "b"), (2, 1, "b"), (2, 2, "a")]


@pytest.mark.parametrize(
    ("name", "over_partitions"), [pytest.param(n, g, marks=() if n in _LIGHT else pytest.mark.slow) for n, g in TYPES]
)
def test_what_reaches_the_driver_does_not_grow_with_rows(tmp_path: Path, name: str, over_partitions: bool) -> None:
    received = []
    for size in (200, 2000):
        options = {**options_of(name, over_partitions), "dynamic-bucket.target-row-num": "1000000"}
        table = IndexedTable.make(tmp_path / str(size), name, options).table
        runner = MeteredRunner()
        for value in ("a", "b"):
            put(table, value, rows([(k % 2, k, value) for k in range(size)]), runner)
        received.append(runner.received)
        placed = BatchFiles(table.store, table.metadata.paths, "b").require(BucketAssignmentReport)
        assert (placed.updates if name != "fixed buckets" else placed.upserts) == size
    few, many = received
    assert set(few) == set(many)
    assert {stage: many[stage] - few[stage] for stage in few if many[stage] - few[stage] > 100} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hbase", "state"])
def test_keys_around_the_commit_are_read_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Not all at once by the process that commits: before the commit, after it, and when it lost a conflict."""
    monkeypatch.setattr("lakeidx.batch.parts.PART_ROWS", 50)
    # The state has many buckets, of several for each task.
    monkeypatch.setattr("lakeidx.batch.key_state.state_table.BUCKET_KEYS", 20)
    read: list[int] = []
    whole = CommittedKeys.read

    def counted(self: CommittedKeys, parts: Any, info: Any) -> Any:
        read.append(len(parts))
        return whole(self, parts, info)

    monkeypatch.setattr(CommittedKeys, "read", counted)
    table = IndexedTable.make(tmp_path, name, options_of(name, True)).table
    gone = ["+I", "-D"] * 100
    put(table, "a", rows([(k % 2, k, "a") for k in range(200)]), MeteredRunner())
    put(table, "b", rows([(k % 2, k, "b") for k in range(200)], gone), MeteredRunner())
    assert len(read) >= 4
    assert set(read) == {1}
    last = put(table, "c", rows([(0, k, "c") for k in range(250)]), MeteredRunner()).assign
    assert (last.index_metrics["found"], last.moved, last.inserts) == (100, 0, 150)
    assert name == "hbase" or last.index_metrics["state_keys_read"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "over_partitions"), [("hash", False), ("global-bloom", True), ("hbase", True)])
def test_a_batch_placed_in_tasks_dies_at_every_point(tmp_path: Path, name: str, over_partitions: bool) -> None:
    """It is run again, and each row is there once."""
    history = fixed_history(7, batches=len(POINTS) + 1, size=20)
    model: Model = {}
    table = IndexedTable.make(tmp_path, name, options_of(name, over_partitions))
    for number, (batch, point) in enumerate(zip(history, [None, *POINTS], strict=True)):
        apply(model, batch, over_partitions=over_partitions)
        if point is not None:
            with POINTS[point](), pytest.raises(DeathError):
                put(table.table, f"b{number}", as_rows(batch), MeteredRunner())
        put(table.table, f"b{number}", as_rows(batch), MeteredRunner())
    table.check(model)
    assert table.table.metadata.latest_snapshot().id == len(history)  # type: ignore[union-attr]
