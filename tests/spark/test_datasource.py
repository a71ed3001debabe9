"""``spark.read.format("lakeidx")``: what Spark reads and writes against what lakeidx itself reads, and a plain dictionary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.spark.datasource import FORMAT, read_table, register
from lakeidx.spark.table_reader import make_splits
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.scan.changes import units_of
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.small_tables import table_spec

pytestmark = pytest.mark.spark

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
SPEC = table_spec(
    "p INT, k BIGINT, v STRING, d DECIMAL(9, 2), t TIMESTAMP(6)",
    ["p", "k"],
    partitions=["p"],
    options={"bucket": "-1", "dynamic-bucket.target-row-num": "20", "file-index.bloom-filter.columns": "v"},
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/d.db/t", SPEC)


def frame(spark: SparkSession, keys: range, text: str) -> DataFrame:
    return spark.createDataFrame([(k % 2, k, f"{text}{k}") for k in keys], "p INT, k LONG, v STRING")


def save(rows: DataFrame, table: Table, mode: str = "append") -> None:
    rows.write.format(FORMAT).mode(mode).option("missing", "null").save(table.uri)


def content(rows: DataFrame) -> dict[int, str]:
    found = rows.select("k", "v").collect()
    out = {r.k: r.v for r in found}
    assert len(out) == len(found)
    return out


def test_a_fallback_branch_is_read_as_by_scans(spark: SparkSession, table: Table) -> None:
    table.create_branch("side")
    save(frame(spark, range(6), "side"), table.branch("side"))
    table.upsert([{"p": 1, "k": 7, "v": "main7", "d": None, "t": None}])
    table.alter(set={"scan.fallback-branch": "side"})
    model = {0: "side0", 2: "side2", 4: "side4", 7: "main7"}
    assert content(spark.read.format(FORMAT).load(table.uri)) == model
    assert content(spark.read.format(FORMAT).load(table.uri).where("p = 1")) == {7: "main7"}
    assert content(spark.read.format(FORMAT).option("scan.snapshot-id", 1).load(table.uri)) == model
    assert content(spark.read.format(FORMAT).load(f"{table.uri}$branch_side").where("p = 1")).keys() == {1, 3, 5}


def test_spark_finds_the_format_by_itself(spark: SparkSession, table: Table) -> None:
    """A session that was told nothing reads the table, also by a view in SQL."""
    save(frame(spark, range(6), "a"), table)
    untold = spark.newSession()
    assert content(untold.read.format("lakeidx").load(table.uri)) == {k: f"a{k}" for k in range(6)}
    untold.sql(f"CREATE TEMPORARY VIEW seen USING lakeidx OPTIONS (path '{table.uri}')")
    assert [r.v for r in untold.sql("SELECT v FROM seen WHERE k = 4").collect()] == ["a4"]


def test_upserts_reads_time_travel_and_changes(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(60), "a"), table)
    save(frame(spark, range(40, 80), "b"), table)
    model = {k: f"a{k}" for k in range(40)} | {k: f"b{k}" for k in range(40, 80)}
    loaded = spark.read.format(FORMAT).load(table.uri)
    assert content(loaded) == model
    assert {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()} == model
    before = spark.read.format(FORMAT).option("scan.snapshot-id", "1").load(table.uri)
    assert content(before) == {k: f"a{k}" for k in range(60)}
    between = spark.read.format(FORMAT).option("incremental-between", "1,2").load(table.uri)
    assert content(between) == {k: f"b{k}" for k in range(40, 80)}
    # One frame, several queries: none sees another one's filter.
    assert content(loaded.where("k < 5")) == {k: f"a{k}" for k in range(5)}
    assert content(loaded.where("v = 'b50'")) == {50: "b50"}
    assert loaded.count() == 80
    assert content(read_table(spark, table.uri, columns=["k", "v"], where="k >= 78")) == {78: "b78", 79: "b79"}
    assert read_table(spark, table.uri, columns=["k"]).columns == ["k"]
    nothing = spark.read.format(FORMAT).option("where", "k = 12345").load(table.uri)
    assert nothing.count() == 0


def test_two_tags_or_diff_give_the_rows_that_changed(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(60), "a"), table)
    create_tag(table.metadata, "first")
    save(frame(spark, range(50, 60), "a"), table)
    save(frame(spark, range(55, 65), "b"), table)
    create_tag(table.metadata, "last")
    changed = {k: f"b{k}" for k in range(55, 65)}
    reader = spark.read.format(FORMAT)
    assert content(reader.option("incremental-between", "first,last").load(table.uri)) == changed
    diff = spark.read.format(FORMAT).option("incremental-between-scan-mode", "diff")
    assert content(diff.option("incremental-between", "1,3").option("where", "k > 60").load(table.uri)) == {
        k: v for k, v in changed.items() if k > 60
    }
    assert content(diff.option("incremental-between", "1,2").option("where", "k > 0").load(table.uri)) == {}
    by_ids = spark.read.format(FORMAT).option("incremental-between-tag-to-snapshot", "true")
    assert by_ids.option("incremental-between", "first,last").load(table.uri).count() == 20


def test_rows_with_their_kinds(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(6), "a"), table)
    create_tag(table.metadata, "first")
    gone = spark.createDataFrame([(0, 2, None, "-D"), (1, 3, "b3", "+U"), (0, 8, "b8", "+I")],
                                 "p INT, k LONG, v STRING, _kind STRING")  # fmt: skip
    save(gone, table)
    create_tag(table.metadata, "last")
    times = ",".join(str(table.metadata.load_snapshot(i).time_millis) for i in (1, 2))

    def read(path: str = "", **options: str) -> set[tuple[object, ...]]:
        reader = spark.read.format(FORMAT)
        for key, value in options.items():
            reader = reader.option(key.replace("__", ".").replace("_", "-"), value)
        return {tuple(r) for r in reader.option("columns", "k,v").load(table.uri + path).collect()}

    delta = {(2, None, "-D"), (3, "b3", "+U"), (8, "b8", "+I")}
    diff = {(2, "a2", "-D"), (3, "a3", "-U"), (3, "b3", "+U"), (8, "b8", "+I")}
    assert read(incremental_between="1,2", read__changelog="true") == delta
    assert read(incremental_between="1,2", incremental_between_scan_mode="diff", read__changelog="true") == diff
    assert read(incremental_between="1,2", incremental_between_scan_mode="derived", read__changelog="true") == diff
    assert read(incremental_between_timestamp=times, read__changelog="true") == delta
    assert read(incremental_between_tag="first,last", read__changelog="true") == diff
    assert read(incremental_between_tag="first,last") == {(3, "b3"), (8, "b8")}
    assert read("$audit_log", incremental_between="1,2") == {(kind, k, v) for k, v, kind in delta}
    binlog = spark.read.format(FORMAT).option("incremental-between", "first,last").option("where", "k = 3")
    (packed,) = binlog.load(f"{table.uri}$binlog").select("rowkind", "k", "v").collect()
    assert tuple(packed) == ("+U", [3, 3], ["a3", "b3"])
    state = read(read__changelog="true")
    assert state == {(k, f"a{k}", "+I") for k in (0, 1, 4, 5)} | delta
    with pytest.raises(Exception, match="incremental-between-tag: no tag 'x'"):
        read(incremental_between_tag="first,x")


class _Numbers(DataSource):
    """Ids 0 to 9, and a reader that takes every filter ``id = N``."""

    @classmethod
    def name(cls) -> str:
        return "ten_numbers"

    def schema(self) -> str:
        return "id INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _NumbersReader()


class _NumbersReader(DataSourceReader):
    only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for one in filters:
            if isinstance(one, EqualTo):
                self.only = one.value
            else:
                yield one

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(i,) for i in range(10) if self.only in (None, i)])


def test_spark_answers_a_frame_by_the_filter_of_another_use(spark: SparkSession) -> None:
    """Why readers of lakeidx take no filters; when this fails, Spark has mended it, and they may.

    The filter of one use is in the plan of all uses, those of the same query too.
    """
    key = "spark.sql.python.filterPushdown.enabled"
    before = str(spark.conf.get(key))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.conf.set(key, "true")
    try:
        spark.dataSource.register(_Numbers)
        frame = spark.read.format("ten_numbers").load()
        rows = frame.where("id = 5").union(frame).collect()
        assert [r.id for r in rows] == [5, 5]  # of 5 and 0 to 9
    finally:
        spark.conf.set(key, before)
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def test_register_leaves_the_session_as_it_is(spark: SparkSession, table: Table) -> None:
    session = spark.newSession()
    before = {key: session.conf.get(key) for key in ("spark.sql.python.filterPushdown.enabled", ARROW_ROWS)}
    register(session)
    assert {key: session.conf.get(key) for key in before} == before
    session.conf.set(ARROW_ROWS, "0")
    with pytest.raises(InvalidInputError, match=f"{ARROW_ROWS} = 0: .* spark.conf.unset"):
        read_table(session, table.uri)


def test_a_frame_keeps_its_splits(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(60), "a"), table)
    kept = spark.read.format(FORMAT).load(table.uri)
    assert (kept.where("k < 5").count(), kept.count(), kept.where("k >= 5").count()) == (5, 60, 55)
    both = kept.where("k < 5").union(kept.where("k >= 50"))
    assert both.count() == 15


def test_overwrite_replaces_touched_partitions(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(10), "a"), table)
    save(spark.createDataFrame([(0, 100, "only")], "p INT, k LONG, v STRING"), table, "overwrite")
    assert content(spark.read.format(FORMAT).load(table.uri)) == {k: f"a{k}" for k in range(1, 10, 2)} | {100: "only"}
    none = spark.createDataFrame([], "p INT, k LONG, v STRING")
    none.write.format(FORMAT).mode("overwrite").option("where", "p = 1").save(table.uri)
    assert content(spark.read.format(FORMAT).load(table.uri)) == {100: "only"}


def test_a_data_frame_brings_columns(spark: SparkSession, table: Table) -> None:
    rows = spark.createDataFrame([(0, 1, "a", 7)], "p INT, k LONG, v STRING, extra INT")
    with pytest.raises(Exception, match="columns the table does not have: extra"):
        save(rows, table)
    wanted = rows.write.format(FORMAT).mode("append").option("mergeSchema", "true").option("missing", "null")
    wanted.save(table.uri)
    found = spark.read.format(FORMAT).load(table.uri).select("k", "extra").collect()
    assert [tuple(r) for r in found] == [(1, 7)]


def test_a_frame_without_some_columns_says_what_that_means(spark: SparkSession, table: Table) -> None:
    full = spark.createDataFrame([(0, 2, "a", None, None)], "p INT, k LONG, v STRING, d DECIMAL(9, 2), t TIMESTAMP_NTZ")
    full.write.format(FORMAT).mode("append").save(table.uri)
    known = spark.createDataFrame([(0, 2)], "p INT, k LONG")
    with pytest.raises(Exception, match="lack the columns v, d, t, and null would overwrite") as refused:
        known.write.format(FORMAT).mode("append").save(table.uri)
    # Errors of tasks and plans are the one line, the traceback is for those who ask.
    assert "File " not in str(refused.value)
    with pytest.raises(Exception, match="lack the columns v, d, t") as refused:
        known.write.format(FORMAT).mode("append").option("traceback", "true").save(table.uri)
    assert "table_writer.py" in str(refused.value)
    with pytest.raises(Exception, match="missing must be one of refuse, null, not 'none'"):
        known.write.format(FORMAT).mode("append").option("missing", "none").save(table.uri)
    assert content(spark.read.format(FORMAT).load(table.uri)) == {2: "a"}
    known.write.format(FORMAT).mode("append").option("missing", "null").save(table.uri)
    assert content(spark.read.format(FORMAT).load(table.uri)) == {2: None}
    # Deletes need their keys only; whether there are others is known when the rows come.
    gone = spark.createDataFrame([(0, 2, "-D")], "p INT, k LONG, _kind STRING")
    gone.write.format(FORMAT).mode("append").save(table.uri)
    assert content(spark.read.format(FORMAT).load(table.uri)) == {}
    with pytest.raises(Exception, match="lack the columns v, d, t, and null would overwrite") as refused:
        gone.replace("-D", "+U").write.format(FORMAT).mode("append").save(table.uri)
    assert "File " not in str(refused.value)


def shown(spark: SparkSession, node: str) -> dict[str, str]:
    """What Spark's SQL page shows beside a node of the newest query that has one; it comes a moment after the query."""
    store = spark._jsparkSession.sharedState().statusStore()
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end:
        queries = store.executionsList()
        for number in reversed(range(queries.size())):
            query = queries.apply(number).executionId()
            nodes, values = store.planGraph(query).allNodes(), store.executionMetrics(query)
            for found in (nodes.apply(i) for i in range(nodes.size())):
                names = {
                    m.name(): values.get(m.accumulatorId())
                    for m in map(found.metrics().apply, range(found.metrics().size()))
                }
                if found.name() == node and names and all(v.isDefined() for v in names.values()):
                    return {name: str(v.get()) for name, v in names.items()}
        time.sleep(0.1)
    raise AssertionError(f"no figures of {node}")


def test_sparks_pages_show_rows_and_bytes_of_reads_and_writes(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(40), "a"), table)
    written = shown(spark, "AppendData lakeidx")
    assert written["number of output rows"] == "40"
    spark.read.format(FORMAT).load(table.uri).collect()
    read = shown(spark, "BatchScan lakeidx")
    assert read["number of output rows"] == "40"
    for figures in (written, read):
        assert {"data sent to Python workers", "data returned from Python workers"} <= set(figures)


def test_a_stream_follows_the_snapshots(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    save(frame(spark, range(10), "a"), table)
    stream = spark.readStream.format(FORMAT).load(table.uri).select("k", "v")
    query = (
        stream.writeStream.format("memory").queryName("followed").option("checkpointLocation", f"{tmp_path}/cp").start()
    )
    try:
        query.processAllAvailable()
        assert spark.table("followed").count() == 10
        save(frame(spark, range(8, 12), "b"), table)
        query.processAllAvailable()
        rows = {(r.k, r.v) for r in spark.table("followed").collect()}
        assert rows == {(k, f"a{k}") for k in range(10)} | {(k, f"b{k}") for k in range(8, 12)}
    finally:
        query.stop()


def test_a_missing_table_and_bad_options_are_named(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not a Paimon table"):
        spark.read.format(FORMAT).load(f"{tmp_path}/none").count()
    with pytest.raises(Exception, match=r"scan\.watermark: lakeidx does not have this option"):
        spark.read.format(FORMAT).option("scan.watermark", "5").load(table.uri).count()
    with pytest.raises(Exception, match="filter-pushdown: lakeidx does not have this option; write where"):
        spark.read.format(FORMAT).option("filter-pushdown", "true").load(table.uri).count()
    with pytest.raises(Exception, match=r"incremental-between"):
        spark.read.format(FORMAT).option("incremental-between", "1").load(table.uri).count()


def test_splits_hold_every_section_once_and_weigh_about_the_same(spark: SparkSession, table: Table) -> None:
    save(frame(spark, range(400), "a"), table)
    scan = table.scan()
    splits = make_splits([[(scan.plan, unit)] for unit in units_of(scan.plan)], target_bytes=4000, open_cost=1)
    units = [[unit for _, units in s.parts for unit in units if isinstance(unit, tuple)] for s in splits]
    files = [[f for unit in found for run in unit[1] for f in run] for found in units]
    names = [f.file_name for split in files for f in split]
    assert sorted(names) == sorted(f.file_name for b in scan.plan.buckets for f in b.files())
    sizes = [sum(f.file_size for f in split) for split in files]
    largest = max(f.file_size for b in scan.plan.buckets for f in b.files())
    assert len(splits) > 1
    assert max(sizes) - min(sizes) <= largest


def test_char_columns_are_compared_without_their_blanks(spark: SparkSession, tmp_path: Path) -> None:
    """Spark compares CHAR so, and would else find no row of what it is asked for; blanks are stored, as Paimon's connector does."""
    spec = table_spec("k CHAR(3), v INT", ["k"], options={"bucket": "1"})
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    table.upsert(pa.table({"k": ["a", "ab"], "v": pa.array([1, 2], pa.int32())}))
    spark.createDataFrame([("a", 3)], "k string, v int").write.format("lakeidx").mode("append").save(table.uri)
    frame = spark.read.format("lakeidx").load(table.uri)
    assert [tuple(r) for r in frame.filter("k = 'a' OR k > 'ab'").collect()] == [("a  ", 3)]
