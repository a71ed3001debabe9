"""`INSERT INTO dst SELECT * FROM src` changed `src`: the table was taken from metadata that the query's columns had from `src`.

Three tables of equal columns; whatever the form of a write, only the one whose path it gives changes, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakeidx.api import Table
from tests.kit.share import share_of
from tests.kit.small_tables import table_spec
from tests.kit.spark_fixture import spark

__all__ = ["spark"]

pytestmark = pytest.mark.spark

SPEC = table_spec("id INT, a STRING", ["id"], options={"bucket": "1"})
ROWS = {"src": {1: "s1", 2: "s2"}, "dst": {9: "d9"}, "third": {2: "t2", 5: "t5"}}
#: Queries, and the rows they give.
QUERIES = {
    "VALUES (3, 'x')": {3: "x"},
    "SELECT 1 id, 'x' a": {1: "x"},
    "SELECT * FROM src": ROWS["src"],
    "SELECT id, a FROM src WHERE id = 2": {2: "s2"},
    "SELECT id + 10, upper(a) FROM src": {11: "S1", 12: "S2"},
    "SELECT s.id, t.a FROM src s JOIN third t ON s.id = t.id": {2: "t2"},
    "SELECT * FROM src UNION ALL SELECT * FROM third WHERE id = 5": {1: "s1", 2: "s2", 5: "t5"},
    "SELECT max(id) id, max(a) a FROM third": {5: "t5"},
    "SELECT id, max(a) a FROM third GROUP BY id": ROWS["third"],
    "SELECT DISTINCT * FROM src ORDER BY id LIMIT 1": {1: "s1"},
    "WITH q AS (SELECT * FROM src) SELECT * FROM q": ROWS["src"],
    "SELECT * FROM dst": ROWS["dst"],
    "TABLE third": ROWS["third"],
}
#: Of Spark 4.2.0 an INSERT has the options of its name in the query instead of its own (SPARK-58330).
TAKES_OPTIONS_OF_READS = pyspark.__version__ == "4.2.0"
REFUSED = r"INSERT INTO name WITH \(path = '/lake/db\.db/table'\)"


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, Table]]:
    made = {name: Table.create(f"{tmp_path}/d.db/{name}", SPEC) for name in ROWS}
    for name, table in made.items():
        table.upsert([{"id": i, "a": a} for i, a in ROWS[name].items()])
        spark.sql(f"CREATE TABLE {name} USING lakeidx LOCATION '{table.uri}'")
    yield made
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def contents(tables: dict[str, Table]) -> dict[str, dict[int, str]]:
    return {n: {r["id"]: r["a"] for r in t.scan().to_arrow().to_pylist()} for n, t in tables.items()}


def snapshots(tables: dict[str, Table]) -> dict[str, int | None]:
    return {n: t.metadata.latest_snapshot_id() for n, t in tables.items()}


def is_written(spark: SparkSession, statement: str) -> bool:
    """Run an INSERT into `dst`, or see it refused: one without the path that it was given never reaches another table."""
    if not (TAKES_OPTIONS_OF_READS and statement.endswith("FROM dst")):
        spark.sql(statement)
        return True
    with pytest.raises(Exception, match=r"Spark 4\.2\.0 drops it where the query reads the same name"):
        spark.sql(statement)
    return False


def test_every_query_reaches_the_table_of_the_path_only(spark: SparkSession, tables: dict[str, Table]) -> None:
    model = {name: dict(rows) for name, rows in ROWS.items()}
    to = f"dst WITH (path = '{tables['dst'].uri}')"
    for query, rows in share_of(QUERIES.items(), 0.4):
        found = dict(model["dst"]) if query.endswith("FROM dst") else rows
        if is_written(spark, f"INSERT INTO {to} {query}"):
            model["dst"].update(found)
        assert contents(tables) == model, query
    for query in ("SELECT * FROM src WHERE id = 2", "SELECT id + 100 id, a FROM dst", "VALUES (9, 'd9')"):
        if is_written(spark, f"INSERT OVERWRITE {to} {query}"):
            model["dst"] = {"S": {2: "s2"}, "+": {102: "s2"}, "V": ROWS["dst"]}["+" if "+" in query else query[0]]
        assert contents(tables) == model, query
    spark.sql(f"INSERT INTO {to} BY NAME SELECT a, id FROM src")
    spark.sql(f"INSERT INTO {to} (a, id) SELECT a, id FROM third")
    third = f"third WITH (PATH = '{tables['third'].uri}')"
    spark.sql(f"FROM src INSERT INTO {to} SELECT id + 20, a INSERT INTO {third} SELECT id + 30, a")
    model["dst"] |= ROWS["src"] | ROWS["third"] | {21: "s1", 22: "s2"}
    model["third"] |= {31: "s1", 32: "s2"}
    assert contents(tables) == model


def test_frames_and_views_reach_their_table_only(spark: SparkSession, tables: dict[str, Table]) -> None:
    model = {name: dict(rows) for name, rows in ROWS.items()}
    uri = tables["dst"].uri
    for name in ("src", "dst"):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v_{name} USING lakeidx OPTIONS (path '{tables[name].uri}')")
    src = spark.table("src")
    added: list[tuple[int, Callable[[], object]]] = [
        (10, lambda: src.select(sf.col("id") + 10, "a").write.insertInto("v_dst")),
        (20, lambda: spark.sql("INSERT INTO v_dst SELECT id + 20, a FROM v_src")),
        (0, lambda: src.writeTo("dst").option("path", uri).append()),
        (0, lambda: src.write.format("lakeidx").option("path", uri).mode("append").saveAsTable("dst")),
        (0, lambda: src.write.format("lakeidx").mode("append").save(uri)),
    ]
    for more, write in added:
        write()
        model["dst"] |= {i + more: a for i, a in ROWS["src"].items()}
        assert contents(tables) == model, more
    replaced: list[Callable[[], object]] = [
        lambda: spark.table("third").writeTo("dst").option("path", uri).overwrite(sf.lit(True)),
        lambda: spark.sql("INSERT OVERWRITE v_dst SELECT * FROM src"),
        lambda: spark.table("third").write.format("lakeidx").mode("overwrite").save(uri),
    ]
    for number, write in enumerate(replaced):
        write()
        model["dst"] = ROWS["src"] if number == 1 else ROWS["third"]
        assert contents(tables) == model, number
    # A name that is made from a query does not read what the query has read.
    src.write.format("lakeidx").option("path", uri).saveAsTable("made")
    try:
        model["dst"] = ROWS["third"] | ROWS["src"]
        assert contents(tables) == model
        with pytest.raises(Exception, match="CREATE TABLE name USING lakeidx LOCATION"):
            spark.table("made").collect()
    finally:
        spark.sql("DROP TABLE made")
    assert contents(tables) == model


def test_without_a_path_nothing_is_written(spark: SparkSession, tables: dict[str, Table]) -> None:
    src = spark.table("src")
    before = snapshots(tables)
    writes: list[str | Callable[[], object]] = [
        *(f"INSERT INTO dst {query}" for query in list(QUERIES)[:3]),
        "INSERT OVERWRITE dst SELECT * FROM src WHERE id = 2",
        "INSERT INTO dst BY NAME SELECT a, id FROM src",
        "INSERT INTO dst (a, id) SELECT a, id FROM src",
        f"INSERT INTO dst SELECT * FROM src WITH (path = '{tables['src'].uri}')",
        "FROM src INSERT INTO dst SELECT * INSERT INTO third SELECT *",
        "CREATE TABLE made USING lakeidx AS SELECT * FROM src",
        f"CREATE TABLE made USING lakeidx LOCATION '{tables['dst'].uri}' AS SELECT * FROM src",
        lambda: src.write.insertInto("dst"),
        lambda: src.write.insertInto("dst", overwrite=True),
        lambda: src.writeTo("dst").append(),
        lambda: src.writeTo("dst").overwrite(sf.lit(True)),
        lambda: src.writeTo("made").using("lakeidx").create(),
        lambda: src.write.format("lakeidx").mode("append").saveAsTable("dst"),
        lambda: src.write.format("lakeidx").saveAsTable("made"),
    ]
    for _, write in share_of(enumerate(writes), 0.4, key=lambda w: w[0]):
        with pytest.raises(Exception, match=REFUSED) as refused:
            spark.sql(write) if isinstance(write, str) else write()
        assert "File " not in str(refused.value)
    # Forms that Spark does not have for Python sources.
    to = f"dst WITH (path = '{tables['dst'].uri}')"
    for write in (f"INSERT INTO {to} REPLACE WHERE id = 1 SELECT * FROM src", "TRUNCATE TABLE dst", "DELETE FROM dst"):
        with pytest.raises(Exception, match="not support"):
            spark.sql(write)
    assert not spark.catalog.tableExists("made")
    assert snapshots(tables) == before
    assert contents(tables) == ROWS
