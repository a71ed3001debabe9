"""Every value through every door of Spark, one session for all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeidx.spark import register
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import fill
from tests.kit.matrix_spark import ways_in, ways_out
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


@pytest.mark.parametrize("name", ["Spark", "Spark changes", "Spark stream"])
def test_what_is_there_comes_out(session: SparkSession, name: str, tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path)
    filled.check(ways_out(session)[name], tmp_path)


def test_spark_connect(tmp_path: Path) -> None:
    require_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.matrix_connect", str(tmp_path)],
        env=environment, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=HANGS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout} {done.stderr[-4000:]}"
