"""The stage lookup_store on Spark: what it builds, what it finds there already, and the job that runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table
from lakeidx.jobs import lookup_store as job
from lakeidx.lookup.listing import LISTING_NAME, read_listing
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.spark.runner import SparkRunner
from lakeidx.table.view import load_view
from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]

SPEC = {
    "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["p", "k"], "partitionKeys": ["p"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "40", "num-sorted-run.compaction-trigger": "99"},
}  # fmt: skip


def filled(folder: Path) -> Table:
    table = Table.create(f"{folder}/d.db/t", SPEC)
    put(table, range(200), "a")
    return table


def put(table: Table, keys: range, text: str) -> None:
    table.upsert(pa.table({"p": [k % 2 for k in keys], "k": list(keys), "v": [f"{text}{k}" for k in keys]}))


def live(table: Table) -> set[str]:
    """Names of the newest snapshot's data files."""
    return {e.file.file_name for e in load_view(table.metadata, table.metadata.latest_snapshot()).entries}


def listed(table: Table) -> set[str]:
    of_buckets = [Path(table.uri, "lookup", f"p={p}", f"bucket-{b}", LISTING_NAME) for p in range(2) for b in range(9)]
    return {name for path in of_buckets if path.exists() for name in read_listing(table.store, str(path))}


def check_answers(table: Table, texts: dict[int, str]) -> None:
    lookup = TableLookup(table.metadata)
    keys = [*range(200), 999]
    answer = lookup.lookup(pa.table({"p": [k % 2 for k in keys], "k": keys}))
    assert answer.rows.column("v").to_pylist() == [*(f"{texts.get(k, 'a')}{k}" for k in range(200)), None]
    assert (lookup.metrics.data_files, lookup.metrics.lookup_files > 0) == (0, True)


def test_only_new_data_files_are_built(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    runner = SparkRunner(spark)
    before = live(table)
    first = run_lookup_store(table.metadata, runner)
    assert (first.built, first.reused, first.entries) == (len(before), 0, 200)
    assert len(before) > 4
    put(table, range(0, 20, 2), "b")
    now = live(table)
    assert len(now - before) == len(now) - len(before) > 0
    second = run_lookup_store(table.metadata, runner)
    assert (second.built, second.reused, second.removed) == (len(now - before), len(before), 0)
    assert listed(table) == now
    assert run_lookup_store(table.metadata, runner).built == 0
    check_answers(table, dict.fromkeys(range(0, 20, 2), "b"))


def test_the_job_prints_its_report(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = filled(tmp_path)
    assert job.main([table.uri]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == len(live(table))
    assert job.main([table.uri, "--engine", "local"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["built"], report["reused"]) == (0, len(live(table)))
    assert job.main([f"{tmp_path}/d.db/none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_spark_submit(tmp_path: Path) -> None:
    table = filled(tmp_path)

    def submit() -> dict[str, Any]:
        command = [f"{pyspark.__path__[0]}/bin/spark-submit", "--master", "local[2]", "--driver-memory", "512m"]
        done = subprocess.run(
            [*command, f"{ROOT}/jobs/run.py", "lookup_store", table.uri],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
            timeout=HANGS_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        return found

    files = len(live(table))
    report = submit()
    assert (report["built"], report["reused"], report["snapshot_id"]) == (files, 0, 1)
    put(table, range(0, 20, 2), "b")
    report = submit()
    assert (report["built"], report["reused"]) == (len(live(table)) - files, files)
    check_answers(table, dict.fromkeys(range(0, 20, 2), "b"))
