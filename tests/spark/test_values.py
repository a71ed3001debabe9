"""Values through every door of Spark: each type of Paimon, and points in time by the rules of the session's time zone.

What a door must give is written down by hand, or what `datetime` and `zoneinfo` say; never what another door gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import VariantVal

from lakeidx.api import Table
from lakeidx.pipeline_file.model import load_pipeline
from lakeidx.spark import lookup_join, read_table, register, upsert
from lakeidx.spark.datasource import FORMAT

pytestmark = pytest.mark.spark

#: Clocks there stand 4 hours behind UTC in summer, and 5 in winter.
NEW_YORK = "America/New_York"
ZONED = " WITH LOCAL TIME ZONE"
CLOCK = datetime(2026, 7, 1, 1, 30, 0, 123456)
MILLIS, SECONDS = CLOCK.replace(microsecond=123000), CLOCK.replace(microsecond=0)
#: 1960-06-30 01:30:00.123456789: before 1970 and finer than what Spark has.
NANOS = -299975399876543211
VARIANT = {"value": b"\x02\x01\x00\x00\x02\x0c\x01", "metadata": b"\x01\x01\x00\x01a"}  # {"a": 1}


def zoned(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


#: Column -> type, value in the table, and what Spark shows of it as text in New York.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "tiny": ("TINYINT", -7, "-7"),
    "flo": ("FLOAT", 1.5, "1.5"),
    "dec": ("DECIMAL(38, 10)", Decimal("1.5"), "1.5000000000"),
    "ch": ("CHAR(4)", "ab", "ab  "),
    "bin": ("BINARY(4)", b"abcd", "abcd"),
    "day": ("DATE", date(2026, 7, 1), "2026-07-01"),
    "n0": ("TIMESTAMP(0)", SECONDS, "2026-07-01 01:30:00"),
    "n3": ("TIMESTAMP(3)", MILLIS, "2026-07-01 01:30:00.123"),
    "n6": ("TIMESTAMP(6)", CLOCK, "2026-07-01 01:30:00.123456"),
    "n9": ("TIMESTAMP(9)", NANOS, "1960-06-30 01:30:00.123456"),
    "z0": ("TIMESTAMP(0)" + ZONED, zoned(SECONDS), "2026-06-30 21:30:00"),
    "z3": ("TIMESTAMP(3)" + ZONED, zoned(MILLIS), "2026-06-30 21:30:00.123"),
    "z6": ("TIMESTAMP(6)" + ZONED, zoned(CLOCK), "2026-06-30 21:30:00.123456"),
    "z9": ("TIMESTAMP(9)" + ZONED, NANOS, "1960-06-29 21:30:00.123456"),
    "va": ("VARIANT", VARIANT, '{"a":1}'),
    "list": ({"type": "ARRAY", "element": "TIMESTAMP(3)" + ZONED}, [zoned(MILLIS), None],
             "[2026-06-30 21:30:00.123, null]"),
    "fine": ({"type": "ARRAY", "element": "TIMESTAMP(9)"}, [NANOS], "[1960-06-30 01:30:00.123456]"),
    "map": ({"type": "MAP", "key": "TIMESTAMP(3)" + ZONED, "value": "TIMESTAMP(3)"}, [(zoned(MILLIS), MILLIS)],
            "{2026-06-30 21:30:00.123 -> 2026-07-01 01:30:00.123}"),
    "bag": ({"type": "MULTISET", "element": "STRING"}, [("k", 2)], "{k -> 2}"),
    "row": ({"type": "ROW", "fields": [
                {"id": 100, "name": "z", "type": "TIMESTAMP(3)" + ZONED},
                {"id": 101, "name": "va", "type": "VARIANT"}]},
            {"z": zoned(MILLIS), "va": VARIANT}, '{2026-06-30 21:30:00.123, {"a":1}}'),
}  # fmt: skip
#: Spark 4.3 has no streams of TIME.
TIMES: dict[str, tuple[Any, Any, Any]] = {
    "t0": ("TIME(0)", time(1, 2, 3), "01:02:03"),
    "t3": ("TIME(3)", time(1, 2, 3, 4000), "01:02:03.004"),
}
DOORS = ("write", "upsert", "insert")


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", NEW_YORK)
    register(made)
    yield made
    for (name,) in made.sql("SHOW TABLES").select("tableName").collect():
        made.sql(f"DROP TABLE IF EXISTS {name}")


def create(folder: Path, name: str, columns: dict[str, Any], **more: Any) -> Table:
    fields = [{"name": "id", "type": "INT"}, *({"name": n, "type": t} for n, t in columns.items())]
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}, **more}
    return Table.create(f"{folder}/d.db/{name}", spec)


def put(session: SparkSession, door: str, frame: DataFrame, table: Table) -> None:
    """Write a frame into a table through a door."""
    if door == "write":
        frame.write.format(FORMAT).mode("append").save(table.uri)
    elif door == "upsert":
        upsert(frame, table.uri)
    else:
        name = Path(table.uri).name
        frame.createOrReplaceTempView(f"rows_of_{name}")
        session.sql(f"CREATE TABLE {name} USING lakeidx LOCATION '{table.uri}'")
        session.sql(f"INSERT INTO {name} WITH (path = '{table.uri}') SELECT * FROM rows_of_{name}")


def shown(frame: DataFrame) -> list[list[str | None]]:
    """Return the rows as texts, by Spark, in order of id."""
    ordered = frame.orderBy("id")
    return [list(r) for r in ordered.selectExpr(*(f"CAST({c} AS STRING)" for c in ordered.columns)).collect()]


def test_every_type_through_every_door(session: SparkSession, tmp_path: Path) -> None:
    every = VALUES | TIMES
    types = {n: t for n, (t, _, _) in every.items()}
    table = create(tmp_path, "whole", types)
    given = {n: v for n, (_, v, _) in every.items()}
    rows = [{"id": 1, **given}, {"id": 2, **dict.fromkeys(given)}]
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    texts = [["1", *(text for _, _, text in every.values())], ["2", *[None] * len(every)]]
    frame = session.read.format(FORMAT).load(table.uri)
    assert shown(frame) == texts
    between = session.read.format(FORMAT).option("incremental-between", "0,1").load(table.uri)
    assert shown(between) == texts
    changes = session.read.format(FORMAT).option("incremental-between", "0,1").load(f"{table.uri}$audit_log")
    assert shown(changes.drop("rowkind")) == texts
    packed = session.read.format(FORMAT).option("incremental-between", "0,1").load(f"{table.uri}$binlog")
    assert packed.orderBy("id").selectExpr("CAST(z3[0] AS STRING)", "CAST(va[0] AS STRING)").collect()[0] == (
        "2026-06-30 21:30:00.123", '{"a":1}',
    )  # fmt: skip
    assert isinstance(frame.where("id = 1").select("va").collect()[0].va, VariantVal)
    # What goes in again is the same, but for what Spark does not have of it.
    finer, expected = ["n9", "z9", "fine"], table.scan().to_arrow()
    for door in DOORS:
        back = create(tmp_path, door, types)
        put(session, door, frame, back)
        found = back.scan().to_arrow()
        assert found.drop_columns(finer).equals(expected.drop_columns(finer)), door
        assert found.column("n9").cast(pa.int64()).to_pylist() == [NANOS // 1000 * 1000, None]
        assert shown(session.read.format(FORMAT).load(back.uri)) == texts


def test_columns_that_a_frame_brings(session: SparkSession, tmp_path: Path) -> None:
    every = VALUES | TIMES
    table = create(tmp_path, "whole", {n: t for n, (t, _, _) in every.items()})
    row = {"id": 1, **{n: v for n, (_, v, _) in every.items()}}
    table.upsert(pa.Table.from_pylist([row], schema=table.schema.arrow_schema))
    new = create(tmp_path, "new", {})
    frame = session.read.format(FORMAT).load(table.uri)
    frame.write.format(FORMAT).mode("append").option("mergeSchema", "add").save(new.uri)
    assert shown(session.read.format(FORMAT).load(new.uri)) == [["1", *(text for _, _, text in every.values())]]


def test_streams(session: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "t", {n: t for n, (t, _, _) in VALUES.items()})
    row = {"id": 1, **{n: v for n, (_, v, _) in VALUES.items()}}
    table.upsert(pa.Table.from_pylist([row], schema=table.schema.arrow_schema))
    copy = create(tmp_path, "copy", {n: t for n, (t, _, _) in VALUES.items()})

    def put_batch(rows: DataFrame, number: int) -> None:
        upsert(rows, copy.uri, batch_id=f"b{number}")

    query = (
        session.readStream.format(FORMAT).load(table.uri)
        .writeStream.foreachBatch(put_batch)
        .option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    texts = [["1", *(text for _, _, text in VALUES.values())]]
    assert shown(session.read.format(FORMAT).load(copy.uri)) == texts


#: What clocks in New York show -> when that is. 02:30 was left out in March, and 01:30 came twice in November.
CLOCKS = {
    datetime(2026, 7, 1, 1, 30): datetime(2026, 7, 1, 5, 30),
    datetime(2026, 1, 1, 1, 30, 10, 120000): datetime(2026, 1, 1, 6, 30, 10, 120000),
    datetime(2026, 11, 1, 1, 30): datetime(2026, 11, 1, 5, 30),
    datetime(2026, 3, 8, 2, 30): datetime(2026, 3, 8, 7, 30),
    datetime(1850, 1, 1, 0, 0): datetime(1850, 1, 1, 4, 56, 2),
}


@pytest.mark.parametrize("door", DOORS)
def test_clocks_become_points_in_time_and_back_by_the_sessions_zone(
    session: SparkSession, tmp_path: Path, door: str
) -> None:
    clocks = list(CLOCKS)
    inner = {"type": "ROW", "fields": [
        {"id": 100, "name": "clock", "type": "TIMESTAMP(3)"},
        {"id": 101, "name": "when", "type": {"type": "ARRAY", "element": "TIMESTAMP(3)" + ZONED}},
    ]}  # fmt: skip
    table = create(
        tmp_path,
        f"clocks_{door}",
        {"clock": "TIMESTAMP(3)", "when": "TIMESTAMP(6)" + ZONED, "text": "STRING", "both": inner},
    )
    rows = session.createDataFrame([(n, str(c)) for n, c in enumerate(clocks)], "id INT, c STRING").selectExpr(
        "id", "CAST(c AS TIMESTAMP) t", "CAST(c AS TIMESTAMP_NTZ) n"
    )
    frame = rows.selectExpr(
        "id", "t AS clock", "n AS `when`", "t AS text", "named_struct('clock', t, 'when', array(n, null)) AS both"
    )
    put(session, door, frame, table)
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    for row, (clock, moment) in zip(found, CLOCKS.items(), strict=True):
        # The clock that is left out is 03:30.
        seen = clock.replace(hour=3) if clock.month == 3 else clock
        assert row["clock"] == row["both"]["clock"] == seen
        assert row["when"] == row["both"]["when"][0] == zoned(moment)
        assert row["both"]["when"][1] is None
        assert row["text"] == str(seen).replace("120000", "12")


def test_dates_begin_at_midnight_of_the_session(session: SparkSession, tmp_path: Path) -> None:
    for door in DOORS:
        table = create(tmp_path, f"days_{door}", {"when": "TIMESTAMP(0)" + ZONED, "day": "DATE"})
        put(
            session,
            door,
            session.sql("SELECT 1 id, DATE '2026-07-01' `when`, TIMESTAMP '2026-07-01 00:00:00' day"),
            table,
        )
        assert table.scan().to_arrow().to_pylist() == [
            {"id": 1, "when": zoned(datetime(2026, 7, 1, 4)), "day": date(2026, 7, 1)}
        ]


@pytest.mark.parametrize("by_bucket", [True, False])
def test_lookup_joins(session: SparkSession, tmp_path: Path, by_bucket: bool) -> None:
    columns = {n: t for n, (t, _, _) in VALUES.items() if n != "z3"}
    fields = [{"name": n, "type": t} for n, t in {"z3": "TIMESTAMP(3)" + ZONED, **columns}.items()]
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["z3"], "options": {"bucket": "2"}})
    row = {n: v for n, (_, v, _) in VALUES.items()}
    table.upsert(pa.Table.from_pylist([row], schema=table.schema.arrow_schema))
    texts = [text for n, (_, _, text) in VALUES.items() if n != "z3"]
    # A column without a zone meets the key as Spark's own join would have it.
    for kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        orders = session.sql(f"SELECT 1 id, {kind} '2026-06-30 21:30:00.123' moment, current_timestamp() now")
        joined = lookup_join(orders, table.uri, {"moment": "z3"}, list(columns), by_bucket=by_bucket)
        assert shown(joined.drop("moment", "now")) == [["1", *texts]], kind


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:
        call()
    return str(raised.value)


def test_what_has_no_zone_is_refused_where_the_zone_is_not_known(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "t", {"when": "TIMESTAMP(3)" + ZONED, "clock": "TIMESTAMP(3)"})
    session = spark.newSession()
    register(session)
    session.conf.unset("spark.sql.session.timeZone")
    rows = session.sql("SELECT 1 id, TIMESTAMP_NTZ '2026-07-01 01:30:00' `when`, TIMESTAMP '2026-07-01 01:30:00' clock")
    assert "column when: without a zone, it becomes a point in time" in refused(
        lambda: put(session, "write", rows, table)
    )
    assert table.metadata.latest_snapshot_id() is None
    upsert(rows, table.uri)
    session.conf.set("spark.sql.session.timeZone", "PST")
    assert "'PST' is not known here" in refused(lambda: put(session, "write", rows, table))
    session.conf.set("spark.sql.session.timeZone", "GMT+2")
    put(session, "write", rows.withColumn("clock", rows.clock), table)
    (row,) = table.scan().to_arrow().to_pylist()
    assert row["when"] == zoned(datetime(2026, 6, 30, 23, 30))
    own = session.read.format(FORMAT).schema("id INT, clock TIMESTAMP").load(table.uri)
    assert "column clock cannot be read as timestamp[us, tz=UTC]: the table has TIMESTAMP_NTZ" in refused(own.collect)
    own = session.read.format(FORMAT).schema("id INT, `when` INT").load(table.uri)
    assert "column when cannot be read as int32" in refused(own.collect)


def test_the_flights_of_the_main_job(session: SparkSession, tmp_path: Path) -> None:
    pipeline = load_pipeline(Path(__file__).parents[2] / "pipelines/flights.yaml")
    table = Table.create(f"{tmp_path}/d.db/flights", pipeline.spec())
    moment = zoned(datetime(2013, 1, 1, 10))
    table.upsert([{"month": 1, "time_hour": moment, "carrier": "UA", "flight": 1545}], missing="null")
    frame = session.read.format(FORMAT).load(table.uri)
    assert frame.select("month").collect() == [(1,)]
    assert frame.selectExpr("CAST(time_hour AS STRING)").collect() == [("2013-01-01 05:00:00",)]
    assert read_table(session, table.uri, columns=["time_hour"]).count() == 1
