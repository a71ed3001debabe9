"""Every value through every door of Spark, one session for all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeidx.dagster.resources import SparkResource
from lakeidx.spark import register
from lakeidx.testing.limits import HANGS_SECONDS
from lakeidx.types import TIMESTAMP_ROOTS
from tests.kit.matrix_dagster import IO_IN, IO_OUT, run_assets
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT, WayOut
from tests.kit.matrix_run import LIGHT_IN, LIGHT_LAYOUTS, create, fill
from tests.kit.matrix_spark import collected, micros, ways_in, ways_out
from tests.kit.share import share_of
from tests.kit.spark_fixture import require_java, spark

pytestmark = pytest.mark.matrix
__all__ = ["spark"]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", "UTC")
    register(made)
    yield made
    made.sql("DROP TABLE IF EXISTS matrix")


@pytest.mark.parametrize("name", ["Spark write", "Spark upsert", "Spark SQL"])
def test_what_goes_in_comes_out_or_is_refused(session: SparkSession, name: str, tmp_path: Path) -> None:
    filled = fill(ways_in(session)[name], 0, tmp_path)
    filled.check(WAYS_OUT["scan"], tmp_path)
    filled.check_all(name, WAYS_OUT | IO_OUT | ways_out(session), 0.1, tmp_path)


@pytest.mark.parametrize("name", ["Spark", "Spark changes", "Spark stream"])
def test_what_is_there_comes_out(session: SparkSession, name: str, tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path)
    filled.check(ways_out(session)[name], tmp_path)


_OTHERS = [*LIGHT_LAYOUTS, *((name, 0) for name in IO_IN)]


@pytest.mark.parametrize(("name", "layout"), share_of(_OTHERS, 0.08))
def test_what_came_by_others_comes_out(session: SparkSession, name: str, layout: int, tmp_path: Path) -> None:
    filled = fill((LIGHT_IN | IO_IN)[name], layout, tmp_path)
    filled.check_all(f"{name} {layout}", ways_out(session), 0.3, tmp_path)


def test_a_stream_into_another_table(session: SparkSession, tmp_path: Path) -> None:
    # Spark has no streams of TIME.
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path / "from", ("TIME(",))
    into = replace(filled, table=create(tmp_path / "into", filled.columns))
    stream = session.readStream.format("lakeidx").load(filled.table.uri).writeStream.format("lakeidx")
    query = (
        stream.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start(into.table.uri)
    )
    query.awaitTermination()
    into.check(WayOut(WAYS_OUT["scan"].read, dict.fromkeys(TIMESTAMP_ROOTS, micros)), tmp_path)


def test_frames_through_the_io_manager(session: SparkSession, tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path, ("VARIANT",))
    rows = session.read.format("lakeidx").load(filled.table.uri)
    seen: list[Any] = []

    def collect(t: Any) -> None:
        seen.append(collected(t, filled.columns))

    collect.__annotations__ = {"t": DataFrame, "return": None}
    copy = dg.asset(name="copy", key_prefix="d", metadata={"primary_keys": ["id"]})(lambda: rows)
    read = dg.asset(name="read", ins={"t": dg.AssetIn(key=["d", "copy"])})(collect)
    run_assets(tmp_path, copy, read, spark=SparkResource(master="local[2]"))
    shown = WayOut(lambda *_: seen[0], dict.fromkeys(TIMESTAMP_ROOTS, micros))
    filled.check(shown, tmp_path)


def test_spark_connect(tmp_path: Path) -> None:
    require_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    # PySpark takes a free port then, not 15002, which another server may have.
    environment["SPARK_TESTING"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.matrix_connect", str(tmp_path)],
        env=environment, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=HANGS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout} {done.stderr[-4000:]}"
