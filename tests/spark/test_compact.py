"""Compaction on Spark gives what it gives in one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table
from lakeidx.jobs import compaction as job
from lakeidx.maintenance import compaction
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.spark.runner import SparkRunner
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, filled_table, upsert
from tests.kit.table_history import index_hashes, key_hashes

pytestmark = pytest.mark.spark


KEYS = [(p, k) for p in (1, 2) for k in range(30)]
#: What is left of them.
LEFT = {key: "b" if n % 2 == 0 else "a" for n, key in enumerate(KEYS) if n % 3}


def filled(folder: Path) -> Table:
    """Two partitions with several buckets each; some keys deleted."""
    table = filled_table(
        folder,
        [(p, k, "a") for p, k in KEYS],
        [(p, k, "b") for p, k in KEYS[::2]],
        options={"dynamic-bucket.target-row-num": "8"},
    )
    upsert(table, [(p, k, None) for p, k in KEYS[::3]], ["-D"] * 20)
    return table


def test_buckets_are_compacted_on_workers(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    report = run_compaction(table.metadata, SparkRunner(spark), full=True, shrink=True)
    assert report.buckets > 4
    assert (report.rows_out, report.hashes_dropped) == (40, 20)
    table = Table.open(table.uri)
    assert content(table) == LEFT
    assert index_hashes(table) == {p: set(key_hashes(table, [k for k in LEFT if k[0] == p])) for p in (1, 2)}


def test_a_conflict_is_planned_again_on_workers(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    store = FaultStore(table.store)
    racing = Table(store, table.paths)
    store.fail(
        "put_if_absent",
        "snapshot-4",
        act=lambda *_: Table.open(table.uri).compact(full=True, partitions=["p=1"]) and None,
    )
    report = run_compaction(racing.metadata, SparkRunner(spark), full=True)
    assert report.rounds == 2
    assert content(Table.open(table.uri)) == LEFT


def test_the_job_prints_its_report(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = filled(tmp_path)
    assert job.main([table.uri, "--full", "--partition", "p=2"]) == 0
    assert '"rows_out": 20' in capsys.readouterr().out
    assert content(Table.open(table.uri)) == LEFT


class Counting:
    """A runner that tells what it was given."""

    def __init__(self, inner: SparkRunner) -> None:
        self.inner, self.parallelism = inner, inner.parallelism
        self.items: list[int] = []

    def map(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        self.items.append(len(items))
        return self.inner.map(task, items, label=label)

    def shuffle(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError


def test_a_hot_bucket_is_shared_by_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By key range; rows and their order are those of one task."""
    monkeypatch.setattr(compaction, "LEAST_FILES", 1)
    spec = {
        "fields": [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "target-file-size": "2 kb", "file.block-size": "1 kb", "write-only": "true"},
    }
    tables = [Table.create(f"{tmp_path}/{name}/wh/d.db/t", spec) for name in ("one", "many")]
    for table in tables:
        for first, value in ((0, "a"), (3000, "b")):
            table.upsert(
                pa.table({"k": range(first, first + 6000), "v": [f"{value}{k * 7919:x}" for k in range(6000)]})
            )
        table.compact(full=True)
        table.upsert(pa.table({"k": range(0, 9000, 2), "v": ["c"] * 4500}))
    runner = Counting(SparkRunner(spark))
    reports = [
        run_compaction(tables[0].metadata, LocalRunner(1), full=True),
        run_compaction(tables[1].metadata, runner, full=True),
    ]
    assert runner.items == [2]
    assert [(r.buckets, r.rows_in, r.rows_out) for r in reports] == [(1, 13_500, 9000)] * 2
    found = [table.scan().to_arrow() for table in tables]
    assert found[1].equals(found[0])
    assert all(r.passed for r in tables[1].verify().results)
