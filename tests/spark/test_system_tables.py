"""System tables at Spark's doors: ``load``, ``read_table`` and `lakeidx.spark.sql` give what `Table.system` gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeidx
import lakeidx.spark
from lakeidx.spark.datasource import register

pytestmark = pytest.mark.spark


def test_spark_reads_system_tables(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
    spec = {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)
    for n in (1, 2):
        table.upsert(pa.table({"p": [1, n], "k": [1, 2], "v": ["a", None]}))
    register(spark)
    read = spark.read.format("lakeidx")
    for name in ("files", "snapshots", "partitions", "table_indexes", "options"):
        frame = read.load(f"{table.uri}${name}")
        expected = table.system(name).to_arrow()
        assert frame.columns == expected.column_names
        assert frame.count() == expected.num_rows
    files = read.load(f"{table.uri}$files").where("level = 0").select("record_count")
    assert sum(r.record_count for r in files.collect()) == 4
    assert read.option("scan.snapshot-id", "1").load(f"{table.uri}$files").count() == 1
    found = lakeidx.spark.sql(spark, f"SELECT snapshot_id FROM lakeidx.`{table.uri}$snapshots` WHERE snapshot_id > 1")
    assert [r[0] for r in found.collect()] == [2]
    assert read.load(f"{table.uri}$ro").count() == 0
