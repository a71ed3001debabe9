"""Compaction on Spark gives what it gives in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeidx.jobs import compaction as job
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.spark.runner import SparkRunner
from lakeidx.table.handle import TableHandle
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.table_history import ENGINES, History, key_hashes

pytestmark = pytest.mark.spark


def filled(folder: Path) -> History:
    """Two partitions with several buckets each; some keys deleted."""
    history = History(folder, ENGINES["deduplicate"])
    keys = [(p, k) for p in (1, 2) for k in range(30)]
    history.upsert([(p, k, ("a", k, p, None), "+I") for p, k in keys])
    history.upsert([(p, k, ("b", k, p, None), "+U") for p, k in keys[::2]])
    history.upsert([(p, k, (None, None, None, None), "-D") for p, k in keys[::3]])
    return history


def test_buckets_are_compacted_on_workers(spark: SparkSession, tmp_path: Path) -> None:
    history = filled(tmp_path)
    report = run_compaction(history.table.metadata, SparkRunner(spark), full=True, shrink=True)
    assert report.buckets > 4
    assert (report.rows_out, report.hashes_dropped) == (40, 20)
    history.reopen()
    assert history.content() == history.visible
    assert history.index_hashes() == {
        p: set(key_hashes(history.table, [k for k in history.rows if k[0] == p])) for p in (1, 2)
    }


def test_a_conflict_is_planned_again_on_workers(spark: SparkSession, tmp_path: Path) -> None:
    history = filled(tmp_path)
    store = FaultStore(history.table.store)
    racing = TableHandle(store, history.table.paths)
    store.fail("put_if_absent", "snapshot-4", act=lambda *_: history.compact(full=True, partitions=[1]) and None)
    report = run_compaction(racing.metadata, SparkRunner(spark), full=True)
    assert report.rounds == 2
    history.reopen()
    assert history.content() == history.visible


def test_the_job_prints_its_report(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = filled(tmp_path)
    assert job.main([history.table.uri, "--full", "--partition", "p=2"]) == 0
    assert '"rows_out": 20' in capsys.readouterr().out
    history.reopen()
    assert history.content() == history.visible
