"""`lakeidx.spark.sql`: verbs and upkeep, with frames, views and Spark's tables as sources."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.spark import sql

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    fields = [{"name": "day", "type": "STRING"}, {"name": "id", "type": "BIGINT"}, {"name": "total", "type": "DECIMAL(10, 2)"},
              {"name": "at", "type": "TIMESTAMP_LTZ(6)"}]  # fmt: skip
    spec = {"fields": fields, "primaryKeys": ["day", "id"], "partitionKeys": ["day"], "options": {"bucket": "-1"}}
    made = Table.create(tmp_path / "d.db" / "orders", spec)
    spark.sql(f"CREATE TABLE orders_by_name USING lakeidx LOCATION '{made.uri}'")
    yield made
    spark.sql("DROP TABLE orders_by_name")


def counts(spark: SparkSession, text: str) -> tuple[int, ...]:
    return tuple(sql(spark, text).collect()[0])


def content(table: Table) -> list[tuple[str, int, Decimal | None]]:
    rows = table.scan().to_arrow().sort_by([("day", "ascending"), ("id", "ascending")])
    return [(r["day"], r["id"], r["total"]) for r in rows.to_pylist()]


def test_verbs_change_a_table_with_frames_and_views_as_sources(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: Any = type(spark.range(1))
    to_arrow = frames.toArrow

    def only_reports(frame: DataFrame) -> pa.Table:
        assert "result" in frame.columns, "rows came to the driver"
        return to_arrow(frame)

    monkeypatch.setattr(frames, "toArrow", only_reports)
    path = f"lakeidx.`{table.uri}`"
    spark.range(4).selectExpr("concat('d', id % 2) day", "id", "id * 1.5 total").createOrReplaceTempView("source_rows")
    assert counts(spark, f"INSERT INTO {path} (day, id, total) SELECT day, id, total FROM source_rows") == (4, 0, 0, 0)
    assert counts(spark, "INSERT INTO orders_by_name VALUES ('d0', 0, 7, TIMESTAMP '2026-11-01 00:00:00')") == (
        0,
        1,
        0,
        0,
    )
    assert counts(
        spark, f"WITH x AS (SELECT 9 id) INSERT INTO {path} PARTITION (day = 'd9') (id) SELECT id FROM x"
    ) == (1, 0, 0, 0)
    d = Decimal
    assert content(table) == [
        ("d0", 0, d(7)),
        ("d0", 2, d(3)),
        ("d1", 1, d("1.5")),
        ("d1", 3, d("4.5")),
        ("d9", 9, None),
    ]

    assert counts(spark, "UPDATE orders_by_name SET total = total + 1 WHERE day = 'd1'") == (0, 2, 0, 0)
    assert counts(
        spark, f"UPDATE {path} o SET o.total = 0 WHERE o.id IN (SELECT id FROM source_rows WHERE id > 2)"
    ) == (0, 1, 0, 0)
    assert counts(spark, f"DELETE FROM {path} WHERE total IS NULL") == (0, 0, 1, 0)
    assert content(table) == [("d0", 0, d(7)), ("d0", 2, d(3)), ("d1", 1, d("2.5")), ("d1", 3, d(0))]

    spark.sql("SELECT 'd0' day, 0L id, 50 more, true gone UNION ALL SELECT 'd1', 1L, 50, false UNION ALL SELECT 'd5', 5L, 5, false"
              ).createOrReplaceTempView("changes")  # fmt: skip
    text = f"""MERGE INTO {path} t USING (SELECT * FROM changes WHERE more > 1) s ON t.day = s.day AND t.id = s.id
               WHEN MATCHED AND s.gone THEN DELETE
               WHEN MATCHED THEN UPDATE SET total = t.total + s.more
               WHEN NOT MATCHED THEN INSERT (day, id, total) VALUES (s.day, s.id, s.more)
               WHEN NOT MATCHED BY SOURCE AND t.day = 'd0' THEN DELETE"""
    assert counts(spark, text) == (1, 1, 2, 0)
    assert content(table) == [("d1", 1, d("52.5")), ("d1", 3, d(0)), ("d5", 5, d(5))]

    counts(spark, f"INSERT OVERWRITE {path} (day, id) SELECT 'd1', 8")
    assert content(table) == [("d1", 8, None), ("d5", 5, d(5))]
    counts(spark, f"INSERT OVERWRITE {path} PARTITION (day = 'd5') (id) SELECT id FROM source_rows WHERE id = 3")
    assert content(table) == [("d1", 8, None), ("d5", 3, None)]
    assert sql(spark, "SELECT id FROM orders_by_name WHERE day = 'd5'").collect()[0].id == 3

    # Conditions and values with subqueries, of the table itself, too.
    assert counts(spark, f"UPDATE {path} SET total = (SELECT max(id) FROM {path}) WHERE id IN (SELECT id + 5 FROM source_rows)"
                  ) == (0, 1, 0, 0)  # fmt: skip
    assert counts(spark, f"DELETE FROM {path} o WHERE EXISTS (SELECT 1 FROM {path} x WHERE x.id = o.id + 5)") == (
        0,
        0,
        1,
        0,
    )
    assert content(table) == [("d1", 8, d(8))]

    assert sql(spark, f"ALTER TABLE {path} ADD COLUMN note STRING").collect()[0].change == "added"
    assert sql(spark, f"CALL sys.create_tag(table => '{path}', tag => 'now')").collect()[0].tag == "now"
    assert [r["tag"] for r in table.tags()] == ["now"]
    spark.catalog.dropTempView("source_rows")
    spark.catalog.dropTempView("changes")


def test_a_table_is_made_by_its_path_and_described(spark: SparkSession, tmp_path: Path) -> None:
    made, copy = (f"lakeidx.`{tmp_path}/d.db/{n}`" for n in ("made", "copy"))
    sql(
        spark,
        f"CREATE TABLE {made} (id BIGINT, day STRING COMMENT 'of it') PARTITIONED BY (day) "
        "TBLPROPERTIES ('primary-key' = 'id,day')",
    )
    sql(spark, f"CREATE TABLE IF NOT EXISTS {made} (x INT) TBLPROPERTIES ('primary-key' = 'x')")
    assert counts(spark, f"INSERT INTO {made} VALUES (1, 'a'), (2, 'b')") == (2, 0, 0, 0)
    assert counts(
        spark, f"CREATE TABLE {copy} TBLPROPERTIES ('primary-key' = 'id') AS SELECT id, upper(day) day FROM {made}"
    ) == (2, 0, 0, 0)
    assert sorted(map(tuple, sql(spark, f"SELECT * FROM {copy}").collect())) == [(1, "A"), (2, "B")]
    assert sql(spark, f"DESCRIBE {made}").collect()[1].comment == "of it"
    assert [r.partition for r in sql(spark, f"SHOW PARTITIONS {made}").collect()] == ["day=a", "day=b"]
    with pytest.raises(InvalidInputError):
        sql(
            spark,
            f"CREATE TABLE lakeidx.`{tmp_path}/d.db/bad` TBLPROPERTIES ('primary-key' = 'id') AS SELECT null::int AS id",
        )
    assert not (tmp_path / "d.db" / "bad").exists()
    sql(spark, f"TRUNCATE TABLE {copy}")
    assert sql(spark, f"SELECT * FROM {copy}").collect() == []
    (stated,) = sql(spark, f"SHOW CREATE TABLE {copy}").collect()[0]
    sql(spark, f"DROP TABLE {copy}")
    assert not (tmp_path / "d.db" / "copy").exists()
    sql(spark, stated)
    sql(spark, f"DROP TABLE IF EXISTS lakeidx.`{tmp_path}/d.db/like`")
    sql(spark, f"CREATE TABLE lakeidx.`{tmp_path}/d.db/like` LIKE {copy}")
    assert Table.open(tmp_path / "d.db" / "like").schema.fields == Table.open(tmp_path / "d.db" / "copy").schema.fields


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MERGE INTO orders_by_name t USING nope s ON t.id = s.id WHEN MATCHED THEN DELETE", "nope"),
        ("MERGE INTO nope t USING orders_by_name s ON t.id = s.id WHEN MATCHED THEN DELETE", "line 1, column 12"),
        ("UPDATE orders_by_name SET total = ", "line 1, column"),
        ("UPDATE orders_by_name\nSET nope = 1", "line 2, column 5"),
        ("INSERT INTO orders_by_name VALUES (1)", "line 1, column"),
        ("DELETE FROM orders_by_name; DELETE FROM orders_by_name", "line 1, column 29"),
        ("USE nowhere", "lakeidx.spark.sql takes SELECT, INSERT"),
        ("DROP TABLE orders_by_name", "dropped by its path"),
        ("EXPLAIN SELECT * FROM orders_by_name", "explain(True)"),
    ],
)
def test_what_is_not_understood_is_refused(spark: SparkSession, table: Table, text: str, said: str) -> None:
    # Of names that Spark does not have it tells itself.
    with pytest.raises((LakeIdxError, AnalysisException)) as found:
        sql(spark, text)
    assert said in str(found.value)
    assert table.snapshot is None


def test_frames_are_sources_by_name(spark: SparkSession, table: Table) -> None:
    path = f"lakeidx.`{table.uri}`"
    rows = spark.range(4).selectExpr("concat('d', id % 2) day", "id", "id * 1.5 total")
    given = {"given": rows, "two.parts": rows.where("id = 3")}

    def run(text: str) -> tuple[int, ...]:
        return tuple(sql(spark, text, sources=given).collect()[0])

    assert run(f"INSERT INTO {path} (day, id, total) SELECT * FROM given WHERE id < 3") == (3, 0, 0, 0)
    assert run(
        f"MERGE INTO {path} t USING given ON t.day = given.day AND t.id = given.id WHEN MATCHED AND given.id = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET total = given.total + 1 WHEN NOT MATCHED THEN INSERT (day, id) VALUES (given.day, given.id)"
    ) == (1, 2, 1, 0)
    assert run(f"UPDATE {path} SET total = 9 WHERE id IN (SELECT g.id FROM two.parts g)") == (0, 1, 0, 0)
    assert run(f"DELETE FROM {path} WHERE id IN (SELECT id FROM given WHERE id = 1)") == (0, 0, 1, 0)
    assert content(table) == [("d0", 2, Decimal("4.00")), ("d1", 3, Decimal("9.00"))]
    assert run(f"SELECT count(*), max(given.id) FROM given JOIN {path} t ON t.id = given.id") == (2, 3)
    with pytest.raises(InvalidInputError, match=r"source rows is a list: spark\.createDataFrame"):
        sql(spark, "SELECT * FROM rows", sources={"rows": [(1,)]})  # type: ignore[dict-item]


def test_system_tables_of_a_warehouse_are_read_by_its_path(spark: SparkSession, table: Table) -> None:
    lake = table.uri.rpartition("/d.db/")[0]
    (found,) = sql(spark, f"SELECT * FROM lakeidx.`{lake}/sys.tables` WHERE primary_key").collect()
    assert (found.database_name, found.table_name, found.partitioned) == ("d", "orders", True)
    options = sql(
        spark, f"SELECT key, value FROM lakeidx.`{lake}/sys.all_table_options` WHERE key = 'bucket'"
    ).collect()
    assert [tuple(o) for o in options] == [("bucket", "-1")]
    assert sql(spark, f"SELECT * FROM lakeidx.`{lake}/sys.partitions`").collect() == []
