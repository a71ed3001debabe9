"""``lakeidx index rebuild --spark`` and its job build on workers what one process builds."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakeidx.api import Table
from lakeidx.cli.main import app
from lakeidx.file_index.container import decode_index_container
from lakeidx.jobs import file_index_rebuild as job
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_to_build
from lakeidx.spark.runner import SparkRunner
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec
from tests.kit.spark_fixture import MASTER

pytestmark = pytest.mark.spark

SPEC = table_spec("k BIGINT, v INT, s STRING", ["k"], options={"bucket": "3"})


def make(folder: Path) -> Table:
    """300 rows in three buckets; v holds even numbers."""
    table = Table.create(f"{folder}/d.db/t", SPEC)
    keys = list(range(300))
    table.upsert(
        pa.table({"k": keys, "v": pa.array([2 * (k % 7) for k in keys], pa.int32()), "s": [f"s{k}" for k in keys]})
    )
    run_compaction(table.metadata, LocalRunner(1), full=True)
    return table


def containers(table: Table) -> dict[int, dict[str, dict[str, bytes | None]]]:
    """The decoded index of the one data file of each bucket."""
    out = {}
    for bucket in table.scan().plan.buckets:
        (file,) = bucket.files()
        raw = file.embedded_index
        if raw is None:
            (name,) = file.extra_files
            raw = Path(table.uri, f"bucket-{bucket.bucket}", name).read_bytes()
        out[bucket.bucket] = decode_index_container(raw)
    return out


def test_workers_build_what_one_process_builds(spark: SparkSession, tmp_path: Path) -> None:
    here, there = make(tmp_path / "a"), make(tmp_path / "b")
    for kind, columns in (("bitmap", ["v"]), ("bloom-filter", ["k", "s"])):
        run_file_index_rebuild(here.metadata, LocalRunner(1), spec_to_build(here.schema, kind, columns))
        report = run_file_index_rebuild(there.metadata, SparkRunner(spark), spec_to_build(there.schema, kind, columns))
        assert (report.rewritten, report.rows_read) == (3, 300)
    assert containers(there) == containers(here)
    assert set(containers(there)[0]) == {"v", "k", "s"}
    assert there.scan(where="v = 5").explain().metrics.read.files == 0
    assert there.scan(where="v = 6").to_arrow().num_rows == len([k for k in range(300) if k % 7 == 3])


def test_the_command_and_the_job_run_on_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make(tmp_path)
    built = [
        "index",
        "rebuild",
        table.uri,
        "--type",
        "bitmap",
        "--columns",
        "v",
        "--spark",
        "--master",
        MASTER,
        "--no-progress",
    ]
    done = CliRunner().invoke(app, built)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rewritten"] == 3
    assert table.scan(where="v = 5").explain().metrics.read.files == 0
    capsys.readouterr()
    assert job.main([table.uri, "--type", "bitmap", "--drop", "--master", MASTER]) == 0
    assert json.loads(capsys.readouterr().out)["rewritten"] == 3
    assert all(not c for c in containers(table).values())
    assert table.scan(where="v = 5").explain().metrics.read.files == 3
    assert job.main([table.uri, "--type", "nothing", "--columns", "v"]) == 2
    assert table.scan().to_arrow().num_rows == 300
