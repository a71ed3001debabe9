"""System tables at Spark's doors: ``load``, ``read_table`` and `lakeidx.spark.sql` give what `Table.system` gives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakeidx
import lakeidx.spark
from lakeidx.errors import LakeIdxError
from lakeidx.table.system.names import SYSTEM_TABLES
from tests.conftest import GOLDEN

pytestmark = pytest.mark.spark


def lived(folder: Path) -> lakeidx.Table:
    """A table that has rows in every system table but those of tables without keys."""
    fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "INT"}, {"name": "v", "type": "BIGINT"}]
    options = {"bucket": "-1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
               "file-index.bloom-filter.columns": "v"}  # fmt: skip
    spec = {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options}
    table = lakeidx.Table.create(f"{folder}/d.db/t", spec)
    for n in (1, 2):
        table.upsert(pa.table({"p": [1, n], "k": [1, 2], "v": [7, None]}))
    table.create_tag("one", retain="36 h")
    table.create_branch("trial", tag="one")
    table.compact(full=True)
    table.upsert(pa.table({"p": [1], "k": [5], "v": [8]}))
    (folder / "d.db" / "t" / "consumer").mkdir()
    (folder / "d.db" / "t" / "consumer" / "consumer-reader").write_text('{\n  "nextSnapshot" : 2\n}')
    return table


def name_in_sql(name: str) -> str:
    """With backticks where the name's length is even, without where it is odd."""
    return f"named${name}" if len(name) % 2 else f"default.`named${name}`"


def in_order(rows: pa.Table) -> list[str]:
    """Rows as text; paths without the scheme that Spark's catalog writes before them."""
    return sorted(str(r).replace("file:/", "/") for r in rows.to_pylist())


def test_every_system_table_at_every_door_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    table, tracked = lived(tmp_path), tmp_path / "d.db" / "tracked"
    shutil.copytree(GOLDEN / "tables-2.1" / "row-tracking" / "table", tracked)
    lakeidx.spark.register(spark)
    spark.sql(f"CREATE TABLE named USING lakeidx LOCATION '{table.uri}'")
    empty = []
    try:
        for name in SYSTEM_TABLES:
            opened = table if name != "row_tracking" else lakeidx.Table.open(tracked)
            wanted = opened.system(name).to_arrow()
            empty += [name] * (wanted.num_rows == 0)
            path = f"{opened.uri}${name}"
            doors: dict[str, DataFrame] = {
                "load": spark.read.format("lakeidx").load(path),
                "read_table": lakeidx.spark.read_table(spark, path),
                "sql": lakeidx.spark.sql(spark, f"SELECT * FROM lakeidx.`{path}`"),
            }
            if opened is table:
                doors["catalog"] = lakeidx.spark.sql(spark, f"SELECT * FROM {name_in_sql(name)} WHERE 1 = 1")
            for door, frame in doors.items():
                found = frame.toArrow()
                assert found.column_names == wanted.column_names, (door, name)
                assert in_order(found.cast(wanted.schema)) == in_order(wanted), (door, name)
    finally:
        spark.sql("DROP TABLE named")
    # No program has analyzed the table.
    assert empty == ["statistics"]


def test_spark_reads_parts_of_system_tables(spark: SparkSession, tmp_path: Path) -> None:
    table = lived(tmp_path)
    lakeidx.spark.register(spark)
    read = spark.read.format("lakeidx")
    files = read.load(f"{table.uri}$files").where("level = 0").select("record_count")
    assert [r.record_count for r in files.collect()] == [1]
    assert read.option("scan.snapshot-id", "1").load(f"{table.uri}$files").count() == 1
    found = lakeidx.spark.sql(spark, f"SELECT snapshot_id FROM lakeidx.`{table.uri}$snapshots` WHERE snapshot_id > 3")
    assert [r[0] for r in found.collect()] == [4]
    refused: list[Any] = [
        lambda: read.load(f"{table.uri}$row_tracking").collect(),
        lambda: lakeidx.spark.sql(spark, f"SELECT * FROM lakeidx.`{table.uri}$row_tracking`").collect(),
    ]
    for call in refused:
        with pytest.raises((LakeIdxError, PySparkException), match=r"the table has not option row-tracking\.enabled"):
            call()
