"""What Spark refuses without asking a data source: its sentences are those of the page, beside the calls that work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from lakeidx.api import Table
from lakeidx.spark import create, sql
from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs/query/spark.md"


def sentences() -> list[str]:
    """The first column of the table of the page."""
    lines = PAGE.read_text(encoding="utf-8").partition("| Spark says |")[2].splitlines()[2:]
    return [line.split("|")[1].strip() for line in lines[: lines.index("")]]


def test_spark_says_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/orders"
    frame = spark.sql("SELECT id, 'a' day FROM range(3)")
    create(frame, path, primary_key=["id"], options={"bucket": "1"}, name="sentences")
    writer = frame.write.format("lakeidx")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text('{"id": 1, "day": "b"}')
    counts = spark.readStream.schema("id BIGINT, day STRING").json(f"{tmp_path}/in").groupBy("day").count()

    def stream() -> object:
        sink = counts.writeStream.format("lakeidx").outputMode("update")
        query = sink.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start(path)
        return query.awaitTermination(HANGS_SECONDS)

    calls: list[Callable[[], object]] = [
        lambda: spark.sql("MERGE INTO sentences USING sentences s ON s.id = sentences.id WHEN MATCHED THEN DELETE"),
        lambda: spark.sql("UPDATE sentences SET day = 'b'"),
        lambda: spark.sql("DELETE FROM sentences WHERE id = 1"),
        lambda: spark.sql("TRUNCATE TABLE sentences"),
        lambda: spark.sql(f"SELECT * FROM lakeidx.`{path}`"),
        lambda: spark.sql("SELECT * FROM sentences VERSION AS OF 1"),
        lambda: writer.mode("errorifexists").save(path),
        lambda: writer.mode("ignore").save(path),
        lambda: frame.write.format("lakeidx").mode("append").partitionBy("day").save(path),
        stream,
    ]
    try:
        for sentence, call in zip(sentences(), calls, strict=True):
            with pytest.raises(Exception) as raised:
                call()
            assert sentence in str(raised.value), str(raised.value)[:300]
        assert spark.sql("SELECT * FROM sentences WITH (`scan.version` = '1')").count() == 3
        # A name that Spark made of a query says what to do, and lakeidx.spark.sql knows its place; DROP TABLE leaves the rows.
        frame.write.format("lakeidx").options(path=path).mode("append").saveAsTable("named")
        for statement in ("SELECT * FROM named", "INSERT INTO named VALUES (3, 'b')"):
            with pytest.raises(Exception, match=r"DROP TABLE.* name, then CREATE TABLE name USING lakeidx LOCATION"):
                spark.sql(statement).collect()
        sql(spark, "INSERT INTO named VALUES (3, 'b')")
        assert sql(spark, "SELECT * FROM named WHERE id > 1").count() == 2
        spark.sql("DROP TABLE named")
        assert Table.open(path).scan().to_arrow().num_rows == 4
        for place in ("", f"LOCATION '{path}'"):
            with pytest.raises(Exception, match=r"CREATE TABLE name USING lakeidx LOCATION.*create\(\.\.\., name=\)"):
                spark.sql(f"CREATE TABLE named USING lakeidx {place} AS SELECT 4L id, 'b' day")
            assert not spark.catalog.tableExists("named")
    finally:
        spark.sql("DROP TABLE IF EXISTS named")
        spark.sql("DROP TABLE IF EXISTS sentences")


def test_spark_tells_a_source_the_same_of_save_and_save_as_table(spark: SparkSession) -> None:
    """Why a name of saveAsTable can neither be read by its path nor be refused. When this fails, it can."""

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return "probe"

        def reader(self, schema: StructType) -> DataSourceReader:
            raise ValueError(f"told {vars(self)} {schema.json()} end")

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            raise ValueError(f"told {vars(self)} {schema.json()} {overwrite} end")

    def told(call: Callable[[], object]) -> str:
        with pytest.raises(Exception, match="told") as raised:
            call()
        return str(raised.value).rpartition("told ")[2].partition(" end")[0]

    spark.dataSource.register(Probe)
    writer = spark.range(1).write.format("probe").options(path="/lake/t", Other="1").mode("append")
    assert "/lake/t" in told(writer.save)
    assert told(lambda: writer.saveAsTable("probed")) == told(writer.save)
    spark.sql("CREATE TABLE probed (id BIGINT) USING probe LOCATION '/lake/t' TBLPROPERTIES ('mine' = '1')")
    try:
        said = told(lambda: spark.table("probed").collect())
        assert "id" in said
        assert "/lake/t" not in said
        assert "mine" not in said
    finally:
        spark.sql("DROP TABLE probed")
