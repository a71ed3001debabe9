"""A name that was cached (``CACHE TABLE``) showed the rows of before, after `lakeidx.spark.upsert` of the same session."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel

from lakeidx.api import Table
from lakeidx.spark import catalog_tables, upsert
from tests.kit.spark_fixture import spark as spark

pytestmark = pytest.mark.spark

SPEC = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"]}


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    made = Table.create(f"{tmp_path}/d.db/orders", {**SPEC, "options": {"bucket": "1"}})
    made.upsert([{"id": 1, "v": "a"}])
    Table.create(f"{tmp_path}/d.db/other", {**SPEC, "options": {"bucket": "1"}})
    spark.sql(f"CREATE TABLE orders USING lakeidx LOCATION 'file:{made.uri}'")
    spark.sql(f"CREATE TABLE others USING lakeidx LOCATION '{tmp_path}/d.db/other'")
    spark.sql("CREATE TEMPORARY VIEW broken AS SELECT 1 AS x")
    yield made
    spark.catalog.clearCache()
    for name in ("orders", "others"):
        spark.sql(f"DROP TABLE {name}")
    for view in ("counted", "broken"):
        spark.catalog.dropTempView(view)


def add(spark: SparkSession, table: Table, n: int) -> None:
    upsert(spark.createDataFrame([(n, "b")], "id LONG, v STRING"), f"{table.uri}/")


def count(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"SELECT count(*) n FROM {name}").collect()[0].n)


def test_names_of_the_table_are_refreshed(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # What is made from the table, and the table itself is not cached.
    spark.sql("CACHE TABLE counted AS SELECT count(*) AS n FROM orders")
    add(spark, table, 2)
    assert spark.table("counted").collect()[0].n == 2
    spark.catalog.cacheTable("orders", StorageLevel.MEMORY_ONLY)
    spark.catalog.cacheTable("others")
    assert (count(spark, "orders"), count(spark, "others")) == (2, 0)
    add(spark, table, 3)
    assert count(spark, "orders") == 3
    assert spark.catalog.isCached("orders")
    assert spark.table("orders").storageLevel == StorageLevel.MEMORY_ONLY
    assert spark.catalog.isCached("others")
    assert not caplog.records
    monkeypatch.setattr(catalog_tables, "_FEW_NAMES", 1)
    with caplog.at_level(logging.WARNING, logger="lakeidx"):
        add(spark, table, 4)
    assert [r.message for r in caplog.records] == [
        f"{table.uri}/: of 2 names none was refreshed; where one of this table is cached, call spark.catalog.refreshTable(name)"
    ]
    assert count(spark, "orders") == 3
    # What the line says.
    spark.catalog.refreshTable("orders")
    assert count(spark, "orders") == 4
