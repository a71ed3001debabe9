"""``writeStream.format("lakeidx")``: each micro-batch counts once, over restarts, kills, and a checkpoint that was deleted.

The tables add up what is written, so a batch that counts twice shows.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeidx.api import Table
from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = pytest.mark.spark

COLUMNS = "k BIGINT, n BIGINT"
SPEC = {
    "fields": [{"name": "k", "type": "BIGINT"}, {"name": "n", "type": "BIGINT"}],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
}
#: A query of a process of its own, one file a batch.
QUERY = """
import sys
from lakeidx.spark.runner import get_session
folder, table = sys.argv[1:]
spark = get_session(master="local[2]", config={"spark.log.level": "OFF"})
rows = spark.readStream.schema("k BIGINT, n BIGINT").option("maxFilesPerTrigger", "1").json(folder + "/in")
sink = rows.writeStream.format("lakeidx").option("checkpointLocation", folder + "/checkpoint")
sink.trigger(availableNow=True).start(table).awaitTermination()
"""


def land(folder: Path, name: str, keys: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(json.dumps({"k": k, "n": 1}) for k in keys))
    (folder / name).rename(folder / "in" / name)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).json(f"{folder}/in")


def run(frame: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    sink = frame.writeStream.format("lakeidx").outputMode(mode).options(**options)
    query = sink.trigger(availableNow=True).start(path)
    assert query.awaitTermination(HANGS_SECONDS)


def totals(path: str) -> dict[int, int]:
    return {r["k"]: r["n"] for r in Table.open(path).scan().to_arrow().to_pylist()}


def test_a_batch_that_spark_runs_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    table, checkpoint = Table.create(f"{tmp_path}/d.db/t", SPEC), tmp_path / "checkpoint"
    land(tmp_path, "a", range(3))
    run(stream(spark, tmp_path), table.uri, checkpointLocation=str(checkpoint))
    land(tmp_path, "b", range(1, 3))
    run(stream(spark, tmp_path), table.uri, checkpointLocation=str(checkpoint))
    assert totals(table.uri) == {0: 1, 1: 2, 2: 2}
    # As it is when Spark was killed before it noted that the batch is done.
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    run(stream(spark, tmp_path), table.uri, checkpointLocation=str(checkpoint))
    assert totals(table.uri) == {0: 1, 1: 2, 2: 2}
    # A new checkpoint under the old path begins with batch 0 again, and is another query.
    shutil.rmtree(checkpoint)
    run(stream(spark, tmp_path), table.uri, checkpointLocation=str(checkpoint))
    assert totals(table.uri) == {0: 2, 1: 4, 2: 4}


def test_a_stream_makes_the_table_and_complete_replaces_it(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a", range(3))
    made, path = {"primary-key": "k,n", "partition": "n", "bucket": "1"}, f"{tmp_path}/d.db/counts"
    counts = stream(spark, tmp_path).groupBy("k").count().withColumnRenamed("count", "n")
    run(counts, path, "complete", checkpointLocation=f"{tmp_path}/checkpoint", **made)
    land(tmp_path, "b", range(2))
    run(counts, path, "complete", checkpointLocation=f"{tmp_path}/checkpoint", **made)
    assert totals(path) == {0: 2, 1: 2, 2: 1}


def test_what_is_wrong_is_one_line_and_names_what_works(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a", range(3))
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    by_default = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(by_default, f"{tmp_path}/checkpoints")
    try:
        with pytest.raises(Exception, match=r'option\("checkpointLocation", .*foreachBatch.*upsert') as raised:
            run(stream(spark, tmp_path), table.uri)
        assert "Traceback" not in str(raised.value)
    finally:
        spark.conf.unset(by_default)
    for n, (frame, path, options, says) in enumerate([
        (stream(spark, tmp_path), f"{tmp_path}/none", {}, r'option\("primary-key", "id"\) makes a table'),
        (stream(spark, tmp_path), table.uri, {"wher": "k > 1"}, "wher: lakeidx does not have this option"),
        (stream(spark, tmp_path).drop("k"), table.uri, {}, "k"),
    ]):  # fmt: skip
        with pytest.raises(Exception, match=says) as raised:
            run(frame, path, checkpointLocation=f"{tmp_path}/{n}", **options)
        assert "Traceback" not in str(raised.value)
    assert totals(table.uri) == {}


def test_a_query_that_is_killed(tmp_path: Path) -> None:
    """Killed with its JVM after some batches, twice, and begun again: every file counts once."""
    table, files = Table.create(f"{tmp_path}/d.db/t", SPEC), 12
    for n in range(files):
        land(tmp_path, str(n), range(n, n + 2))
    command = [sys.executable, "-c", QUERY, str(tmp_path), table.uri]
    end, said = time.monotonic() + HANGS_SECONDS, tmp_path / "said"
    with said.open("wb") as errors:
        for enough in (2, 6):
            with subprocess.Popen(command, start_new_session=True, stderr=errors) as query:
                while len(Table.open(table.uri).snapshots()) < enough:
                    # What Spark says decides whether the test runs again: see `AGAIN` in the Makefile.
                    assert query.poll() is None, said.read_text()[-9000:]
                    assert time.monotonic() < end
                    time.sleep(0.05)
                os.killpg(query.pid, signal.SIGKILL)
        done = subprocess.run(command, check=False, timeout=HANGS_SECONDS, stderr=errors)
    assert done.returncode == 0, said.read_text()[-9000:]
    assert totals(table.uri) == {0: 1, **dict.fromkeys(range(1, files), 2), files: 1}
