"""``CREATE TABLE ... USING lakeidx`` and temporary views in SQL: read, written and described as Spark's own tables are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table
from lakeidx.spark import sql

pytestmark = pytest.mark.spark

SPEC = {
    "fields": [
        {"name": "id", "type": "BIGINT"},
        {"name": "day", "type": "STRING"},
        {"name": "v", "type": "STRING", "comment": "what it is"},
    ],
    "primaryKeys": ["day", "id"],
    "partitionKeys": ["day"],
    "options": {"bucket": "1"},
}
DAY = "2026-11-01"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/d.db/t", SPEC)
    made.upsert([{"id": i, "day": DAY, "v": f"a{i}"} for i in range(5)])
    return made


def content(table: Table) -> dict[int, str]:
    return {r["id"]: r["v"] for r in table.scan().to_arrow().to_pylist()}


def test_a_table_of_the_catalog_is_read_and_written(spark: SparkSession, table: Table) -> None:
    spark.sql(f"CREATE TABLE orders USING lakeidx LOCATION '{table.uri}'")
    try:
        assert [tuple(r) for r in spark.sql("DESCRIBE orders").collect()] == [
            ("id", "bigint", None), ("day", "string", None), ("v", "string", "what it is"),
        ]  # fmt: skip
        to = f"WITH (path = '{table.uri}')"
        spark.sql(f"INSERT INTO orders {to} VALUES (4, '{DAY}', 'b4'), (5, '{DAY}', 'b5'), (6, '2026-11-02', 'b6')")
        model = {0: "a0", 1: "a1", 2: "a2", 3: "a3", 4: "b4", 5: "b5", 6: "b6"}
        assert content(table) == model
        # Each query reads what is the newest then.
        assert {r.id: r.v for r in spark.sql("SELECT id, v FROM orders").collect()} == model
        spark.sql(f"INSERT OVERWRITE orders {to} SELECT 9L, '2026-11-02', 'only'")
        assert [tuple(r) for r in spark.sql("SELECT id, v FROM orders WHERE day = '2026-11-02'").collect()] == [
            (9, "only")
        ]
        assert [r.n for r in spark.sql("SELECT count(*) n FROM orders WITH (`scan.snapshot-id` = '1')").collect()] == [
            5
        ]
        rows = spark.createDataFrame([(7, DAY, "c7")], "id LONG, day STRING, v STRING")
        rows.writeTo("orders").option("path", table.uri).append()
        assert content(table)[7] == "c7"
    finally:
        spark.sql("DROP TABLE orders")
    # The catalog forgets the table; its rows stay.
    assert content(table)[7] == "c7"


def test_uses_of_a_name_in_a_statement_are_one_state(spark: SparkSession, table: Table) -> None:
    """Spark plans a Python source once for all of them. When the first asserts fail, it no longer does: tell the pages."""
    table.upsert([{"id": 5, "day": DAY, "v": "a5"}])
    spark.sql(f"CREATE TABLE orders USING lakeidx LOCATION '{table.uri}'")
    old = "`scan.snapshot-id` = '1'"
    two_states = "SELECT count(*) FROM {} UNION ALL SELECT count(*) FROM {}"

    def counts(statement: str) -> list[int]:
        return [r[0] for r in spark.sql(statement).collect()]

    try:
        assert counts(two_states.format(f"orders WITH ({old})", "orders")) == [5, 5]
        assert counts(two_states.format("orders", f"orders WITH ({old})")) == [6, 6]
        spark.sql("CACHE TABLE orders")
        assert counts(f"SELECT count(*) FROM orders WITH ({old})") == [6]
        # These are of two states.
        versions = two_states.format("orders VERSION AS OF 1", "orders")
        assert [r[0] for r in sql(spark, versions).collect()] == [5, 6]
        spark.sql(f"CREATE TEMPORARY VIEW early USING lakeidx OPTIONS (path '{table.uri}', {old.replace('=', '')})")
        assert counts(two_states.format("early", "orders")) == [5, 6]
        reader = spark.read.format("lakeidx")
        both = reader.load(table.uri).join(reader.option("scan.snapshot-id", "1").load(table.uri), "id", "left_anti")
        assert [r.id for r in both.collect()] == [5]
    finally:
        spark.sql("DROP TABLE orders")
        spark.catalog.dropTempView("early")


def test_a_temporary_view_is_read_and_written(spark: SparkSession, table: Table) -> None:
    view = f"CREATE OR REPLACE TEMPORARY VIEW seen USING lakeidx OPTIONS (path '{table.uri}')"
    spark.sql(view)
    assert [r.v for r in spark.sql("SELECT v FROM seen WHERE id = 3").collect()] == ["a3"]
    spark.sql(f"INSERT INTO seen VALUES (3, '{DAY}', 'b3')")
    assert content(table)[3] == "b3"
    # A view is the state of when it was made, as a frame is.
    spark.sql(view)
    assert [r.v for r in spark.sql("SELECT v FROM seen WHERE id = 3").collect()] == ["b3"]


def test_a_table_with_columns_of_its_own_says_how_to_create_it(spark: SparkSession, table: Table) -> None:
    spark.sql(f"CREATE TABLE own (id BIGINT, v STRING) USING lakeidx LOCATION '{table.uri}'")
    try:
        with pytest.raises(Exception, match=r"CREATE TABLE name USING lakeidx LOCATION '/lake/db\.db/table'"):
            spark.sql("SELECT * FROM own").collect()
    finally:
        spark.sql("DROP TABLE own")
    with pytest.raises(Exception, match=r"CREATE TABLE name USING lakeidx LOCATION '/lake/db\.db/table'"):
        spark.sql("CREATE TABLE nowhere USING lakeidx")
    assert content(table)[0] == "a0"
