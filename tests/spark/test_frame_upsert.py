"""Batches whose rows never come to the driver: tasks may return 1 MiB (`spark_fixture`), and the driver may hold nothing of a
batch.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeidx.api import Table
from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport
from lakeidx.errors import InvalidInputError
from lakeidx.spark import upsert
from lakeidx.spark.datasource import FORMAT
from tests.kit.small_tables import table_spec

pytestmark = pytest.mark.spark

#: Of a first batch; one that updates half of the keys follows. Less than ten bytes of each row are more than Spark lets through.
ROWS = 100_000
SPEC = table_spec("p INT, k BIGINT, v STRING", ["p", "k"], partitions=["p"])


def frame(spark: SparkSession, first: int, value: str) -> DataFrame:
    k = (sf.col("id") + first).alias("k")
    return spark.range(0, ROWS, 1, 4).select((sf.col("id") % 2).cast("int").alias("p"), k, sf.lit(value).alias("v"))


def counts(spark: SparkSession, table: Table) -> dict[str, int]:
    return {r["v"]: r["count"] for r in spark.read.format(FORMAT).load(table.uri).groupBy("v").count().collect()}


def create(folder: Path, kind: str) -> Table:
    options = {"bucket": "-1", "index.type": kind, "index.driver-memory": "0"}
    return Table.create(f"{folder}/d.db/{kind}", {**SPEC, "options": options})


def test_spark_refuses_to_bring_rows_to_the_driver(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.maxResultSize") == "1m"
    with pytest.raises(Exception, match=r"spark\.driver\.maxResultSize"):
        frame(spark, 0, "a").select(sf.rand(), sf.rand()).collect()


@pytest.mark.parametrize("kind", ["hash", "global-bloom", "state"])
def test_batches_whose_rows_never_come_to_the_driver(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = create(tmp_path, kind)
    first = upsert(frame(spark, 0, "a"), table.uri, batch_id="1")
    second = upsert(frame(spark, ROWS // 2, "b"), table.uri, batch_id="2")
    assert (first.assign.inserts, first.assign.updates) == (ROWS, 0), first
    assert (second.assign.inserts, second.assign.updates) == (ROWS // 2, ROWS // 2), second
    assert second.assign.in_tasks
    assert upsert(frame(spark, ROWS // 2, "b"), table.uri, batch_id="2").already
    assert counts(spark, table) == {"a": ROWS // 2, "b": ROWS}
    if kind == "state":
        commit_in_sparks_own_process(spark, table)


def commit_in_sparks_own_process(spark: SparkSession, table: Table) -> None:
    """The process in which Spark commits a write has no session, and may hold nothing of a batch either: it starts processes."""
    frame(spark, 0, "c").write.format(FORMAT).mode("append").option("batch-id", "3").save(table.uri)
    after = Table.open(table.uri)
    assert after.snapshot is not None
    assert after.snapshot.id == 3
    placed = BatchFiles(after.store, after.metadata.paths, "3").require(BucketAssignmentReport)
    assert placed.in_tasks
    assert counts(spark, table) == {"b": ROWS // 2, "c": ROWS}


def test_rows_that_differ_each_time_they_are_computed(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "hash")
    frames = [
        spark.range(100).select(sf.lit(0).alias("p"), sf.col("id").alias("k"), sf.lit(value).alias("v"))
        for value in "abc"
    ]
    upsert(frames[0], table.uri, batch_id="1")
    with pytest.raises(InvalidInputError, match="batch '1' was ingested with other content"):
        upsert(frames[1], table.uri, batch_id="1")
    assert upsert(frames[1], table.uri, batch_id="1", replay="skip").already
    frames[2].write.format(FORMAT).mode("append").options(**{"batch-id": "1", "replay": "skip"}).save(table.uri)
    assert counts(spark, table) == {"a": 100}
