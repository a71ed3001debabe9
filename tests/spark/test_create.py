"""Tables that Spark makes, and names of its catalog that differ from their tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.spark import create, upsert
from lakeidx.spark.read_options import OF_SPARK, ReadOptions
from lakeidx.spark.table_writer import TableWriter

pytestmark = pytest.mark.spark
COLUMNS = "id LONG, day STRING, total DECIMAL(10, 2), at TIMESTAMP, wall TIMESTAMP_NTZ, tags ARRAY<STRING>"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    query = """SELECT id, concat('2026-11-0', id % 2 + 1) day, cast(id AS DECIMAL(10, 2)) total, timestamp'2026-11-01 10:00:00' at,
        timestamp_ntz'2026-11-01 10:00:00' wall, array('a') tags FROM range(6)"""
    return spark.sql(query)


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_makes_the_table(frame: DataFrame, tmp_path: Path, mode: str) -> None:
    path = f"{tmp_path}/shop.db/orders"
    writer = frame.write.format("lakeidx").option("primary-key", "day, id").option("partition", "day")
    writer = writer.option("bucket", "2").option("fields.total.default-value", "0").mode(mode)
    writer.save(path)
    table = Table.open(path)
    assert ids(table) == list(range(6))
    assert (table.schema.primary_keys, table.schema.partition_keys) == (("day", "id"), ("day",))
    assert table.schema.options["bucket"] == "2"
    assert [str(f.type) for f in table.schema.fields] == [
        "BIGINT NOT NULL", "STRING NOT NULL", "DECIMAL(10, 2)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)",
        "ARRAY<STRING>",
    ]  # fmt: skip
    # The same line again writes into it; what it says of the table must be so.
    writer.save(path)
    with pytest.raises(Exception, match="bucket = 3: the table has 2; lakeidx table alter"):
        writer.option("bucket", "3").save(path)


def test_a_first_write_that_fails_leaves_nothing(frame: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    path, made = f"{tmp_path}/shop.db/orders", {"primary-key": "id"}
    torn = frame.selectExpr("* EXCEPT (tags)", "if(id = 5, cast(raise_error('torn') AS ARRAY<STRING>), tags) tags")
    no_key = frame.selectExpr("* EXCEPT (id)", "if(id = 5, null, id) id")
    for failing, says in ((torn, "torn"), (no_key, "id")):
        writer = failing.write.format("lakeidx").options(path=path, **made).mode("append")
        for write in (
            writer.save,
            partial(writer.saveAsTable, "never"),
            partial(upsert, failing, path, options=made),
            partial(create, failing, path, primary_key=["id"], name="never"),
        ):
            with pytest.raises(Exception, match=says):
                write()
            assert not spark.catalog.tableExists("never")
            assert not Path(path).exists()
    frame.write.format("lakeidx").options(**made).mode("append").save(path)
    assert ids(Table.open(path)) == list(range(6))


def test_a_table_that_another_program_makes_meanwhile_is_taken_when_it_is_the_same(tmp_path: Path) -> None:
    """Both begin while there is none; what the second one stages counts in the table of the first."""
    columns = pa.schema([("id", pa.int64()), ("v", pa.string())])
    path = f"{tmp_path}/shop.db/orders"

    def begin(of: pa.Schema, **more: str) -> TableWriter:
        wanted = {"path": path, "primary-key": "id", "bucket": "1", **more}
        return TableWriter(ReadOptions.parse(wanted, writes=True), of, overwrite=False)

    first, second = begin(columns), begin(columns)
    others = {
        "bucket = 2: the table has 1": begin(columns, bucket="2"),
        "other columns": begin(columns.append(pa.field("w", pa.string()))),
    }
    rows = [pa.record_batch([[1, n], [f"of {n}", f"of {n}"]], schema=columns) for n in (2, 3)]
    staged = [w.write(iter([r])) for w, r in zip((first, second), rows, strict=True)]
    first.commit([staged[0]])
    second.commit([staged[1]])
    for says, writer in others.items():
        with pytest.raises(InvalidInputError, match=says):
            writer.commit([])
    found = {r["id"]: r["v"] for r in Table.open(path).scan().to_arrow().to_pylist()}
    assert found == {1: "of 3", 2: "of 2", 3: "of 3"}


def test_bad_input_is_one_line_and_leaves_nothing(frame: DataFrame, tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/orders"
    writer = frame.write.format("lakeidx").mode("append")
    for options, says in (
        ({}, r'not a Paimon table.*option\("primary-key", "id"\) makes a table'),
        ({"primary-key": "key"}, "the data frame has no column key"),
        ({"primary-key": "id", "partition": "month"}, "the data frame has no column month"),
        ({"primary-key": "id", "buckets": "2"}, "buckets: lakeidx does not have this option"),
        ({"primary-key": "id", "merge-engine": "newest"}, "merge-engine"),
    ):
        with pytest.raises(Exception, match=says):
            writer.options(**options).save(path)
        writer = frame.write.format("lakeidx").mode("append")
        assert not Path(path).exists()


def test_a_frame_without_a_key_is_one_line_before_any_task(frame: DataFrame, tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/orders"
    create(frame.schema, path, primary_key=["day", "id"], partition_by=["day"])
    failing = frame.selectExpr("assert_true(false)", "*")
    for key in ("id", "day"):
        for options in ({}, {"missing": "null"}, {"_kind": "-D"}):
            rows = failing.drop(key)
            if "_kind" in options:
                rows = rows.selectExpr("*", "'-D' _kind")
            options.pop("_kind", None)
            with pytest.raises(Exception, match=f"the data frame has no column {key}, which is of the table's keys"):
                upsert(rows, path, options=options)
            with pytest.raises(Exception, match=f"the data frame has no column {key}, which is of the table's keys"):
                rows.write.format("lakeidx").mode("append").options(**options).save(path)
    with pytest.raises(Exception, match=f"{tmp_path}/none: not a Paimon table"):
        upsert(failing, f"{tmp_path}/none")
    assert ids(Table.open(path)) == []


def test_create_writes_the_rows_and_makes_the_name(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    path = f"{tmp_path}/it's/shop.db/orders"
    done = create(frame, path, primary_key=["id"], options={"bucket": "1", "batch-id": "first"}, name="made_orders")
    try:
        assert done is not None
        assert spark.sql("SELECT sum(id) s FROM made_orders").collect()[0].s == 15
        with pytest.raises(Exception, match="already exists; upsert"):
            create(frame, path, primary_key=["id"])
        with pytest.raises(Exception, match="catalog has made_orders already"):
            create(frame, f"{tmp_path}/shop.db/second", primary_key=["id"], name="made_orders")
        assert not Path(f"{tmp_path}/shop.db/second").exists()
        empty = create(frame.schema, f"{tmp_path}/shop.db/empty", primary_key=["id"])
        assert empty is None
        upsert(frame, f"{tmp_path}/shop.db/empty")
        assert ids(Table.open(f"{tmp_path}/shop.db/empty")) == list(range(6))
    finally:
        spark.sql("DROP TABLE made_orders")


def test_columns_that_only_the_catalog_has_are_null(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/orders"
    create(frame, path, primary_key=["id"], name="altered_orders")
    # Not the name itself: Spark 4.2 drops the options of an INSERT that also reads its own name.
    frame.createOrReplaceTempView("landed_orders")
    try:
        spark.sql("ALTER TABLE altered_orders ADD COLUMN note STRING")
        into = f"INSERT INTO altered_orders WITH (path = '{path}')"
        rows = spark.sql("SELECT id, note FROM altered_orders WHERE id < 2 ORDER BY id").collect()
        assert [tuple(r) for r in rows] == [(0, None), (1, None)]
        of_table = "day, total, at, wall, tags"
        spark.sql(f"{into} (id, {of_table}) SELECT id + 6, {of_table} FROM landed_orders")
        spark.sql(f"{into} SELECT id + 12, {of_table}, CAST(NULL AS STRING) FROM landed_orders WHERE id < 3")
        assert ids(Table.open(path)) == list(range(15))
        assert Table.open(path).schema.field_names == tuple(frame.columns)
        for values in (f"SELECT id, {of_table}, 'x' FROM landed_orders", "(id, note) VALUES (1, 'x')"):
            with pytest.raises(Exception, match="columns the table does not have: note; add them to the table"):
                spark.sql(f"{into} {values}")
    finally:
        spark.sql("DROP TABLE altered_orders")
        spark.catalog.dropTempView("landed_orders")


def test_names_that_spark_adds_are_known_and_properties_are_the_users_own(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    path = f"{tmp_path}/shop.db/orders"
    create(frame, path, primary_key=["id"])
    spark.sql(
        f"CREATE TABLE owned USING lakeidx OPTIONS (path '{path}', where 'id < 3') COMMENT 'c' TBLPROPERTIES ('mine' = '1')"
    )
    try:
        assert spark.sql("SELECT count(*) n FROM owned").collect()[0].n == 3
        with pytest.raises(Exception, match="did you mean 'where'"):
            spark.sql("SELECT * FROM owned WITH (`wher` = 'id < 1')").collect()
        with pytest.raises(Exception, match="did you mean 'where'"):
            spark.sql(f"CREATE TABLE misspelt USING lakeidx OPTIONS (path '{path}', wher 'id < 3')")
    finally:
        spark.sql("DROP TABLE owned")
    assert ReadOptions.parse({**dict.fromkeys(OF_SPARK - {"provider"}, "x"), "path": path}).path == path


def test_time_travel_by_iso_times(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/orders"
    create(frame, path, primary_key=["id"])
    first = Table.open(path).snapshots()[0]["time"]
    upsert(frame.selectExpr("id + 10 id", "day", "total", "at", "wall", "tags"), path)
    for name in ("timestampAsOf", "scan.timestamp", "scan.timestamp-millis"):
        assert spark.read.format("lakeidx").option(name, str(first)).load(path).count() == 6
    assert spark.read.format("lakeidx").option("versionAsOf", "1").load(path).count() == 6
    assert spark.read.format("lakeidx").load(path).count() == 12
