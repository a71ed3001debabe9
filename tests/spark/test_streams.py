"""``spark.readStream.format("lakeidx")``: what a query gives over stops, a crash, a new column and a rollback.

`tests/unit/spark/streams/test_reader.py` has the crashes between any two steps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakeidx.api import Table
from lakeidx.spark.datasource import FORMAT
from lakeidx.table.stream.consumer import LEASE_PREFIX
from tests.kit.small_tables import table_spec

pytestmark = pytest.mark.spark

SPEC = table_spec("k BIGINT, v STRING", ["k"], options={"bucket": "2"})


class Sink:
    """Rows by batch number, as a sink that takes each batch once; `fails` at a batch, once."""

    def __init__(self, fails: int | None = None) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.fails = fails

    def __call__(self, rows: DataFrame, number: int) -> None:
        self.batches[number] = [r.asDict() for r in rows.collect()]
        if number == self.fails:
            self.fails = None
            raise RuntimeError("the sink is gone")

    def rows(self) -> list[dict[str, Any]]:
        return [r for number in sorted(self.batches) for r in self.batches[number]]


def start(spark: SparkSession, table: Table, sink: Sink, checkpoint: Path, **options: str) -> StreamingQuery:
    stream = spark.readStream.format(FORMAT).option("read.changelog", "true").options(**options).load(table.uri)
    return stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).start()


def run(spark: SparkSession, table: Table, sink: Sink, checkpoint: Path, **options: str) -> None:
    query = start(spark, table, sink, checkpoint, **options)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def upsert(table: Table, rows: dict[int, str], deleted: tuple[int, ...] = (), **more: Any) -> None:
    keys = [*rows, *deleted]
    kinds = ["+I"] * len(rows) + ["-D"] * len(deleted)
    table.upsert(pa.table({"k": keys, "v": [*rows.values(), *[None] * len(deleted)], "_kind": kinds, **more}))


def test_a_query_over_stops_a_crash_a_new_column_and_a_rollback(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    consumers = Path(table.uri) / "consumer"
    upsert(table, {1: "a", 2: "a", 3: "a"})
    upsert(table, {4: "a"}, (3,))
    sink = Sink(fails=3)  # The first batch after the state, which has three parts.
    options = {"incremental-between-scan-mode": "derived", "maxFilesPerTrigger": "1"}
    query = start(spark, table, sink, tmp_path / "checkpoint", **options)
    query.processAllAvailable()
    (lease,) = consumers.iterdir()
    assert lease.name.startswith(f"consumer-{LEASE_PREFIX}")
    assert sorted((r["k"], r["v"], r["_rowkind"]) for r in sink.rows()) == [(k, "a", "+I") for k in (1, 2, 4)]
    upsert(table, {2: "b", 9: "b"}, (1,))
    with pytest.raises(Exception, match="the sink is gone"):
        query.processAllAvailable()
    query.stop()
    # The batch that failed comes again, as it was, though the table has gone on.
    before = len(sink.batches)
    table.alter(add={"n": "INT"})
    upsert(table, {7: "c"}, n=pa.array([5], pa.int32()))
    run(spark, table, sink, tmp_path / "checkpoint", **options, **{"consumer-id": "c"})
    changed = [r for r in sink.rows() if r["k"] in (1, 2, 9)]
    assert sorted((r["k"], r["v"], r["_rowkind"]) for r in changed) == [
        (1, "a", "+I"), (1, "a", "-D"), (2, "a", "+I"), (2, "a", "-U"), (2, "b", "+U"), (9, "b", "+I"),
    ]  # fmt: skip
    assert [(r["k"], r["n"]) for r in sink.rows() if r["k"] == 7] == [(7, 5)]
    assert len(sink.batches) > before
    assert {f.name for f in consumers.iterdir()} == {"consumer-c", lease.name}
    assert json.loads((consumers / "consumer-c").read_text())["nextSnapshot"] in (3, 4)  # Spark says late what is done.
    table.rollback(snapshot=2)
    with pytest.raises(Exception, match="read up to snapshot 4, which was rolled back or replaced") as raised:
        run(spark, table, sink, tmp_path / "checkpoint", **options)
    assert "Traceback" not in str(raised.value)


def test_available_now_and_rows_without_kinds(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    for k in range(4):
        upsert(table, {k: "a"}, (k - 1,))
    sink = Sink()
    stream = spark.readStream.format(FORMAT).options(**{"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    limited = stream.option("read.stream.maxRowsPerTrigger", "2").load(table.uri)
    query = (
        limited.writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sink.rows() == [{"k": k, "v": "a"} for k in (1, 2, 3)]
    assert len(sink.batches) == 3


def test_what_is_wrong_with_a_stream_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a schema of its own lets it begin: Spark hides an error of `streamReader` behind one of its own."""
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    upsert(table, {1: "a"})
    wrong = [
        ({"scan.mode": "nope"}, "InvalidInputError: scan.mode: 'nope' is not latest-full"),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "9"}, "snapshot 9 does not exist"),
        ({"scan.tag-name": "t"}, "InvalidInputError: a stream begins by scan.mode"),
    ]
    for n, (options, says) in enumerate(wrong):
        stream = spark.readStream.format(FORMAT).schema("k BIGINT").options(**options).load(table.uri)
        writer = stream.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/{n}")
        with pytest.raises(Exception, match=says) as raised:
            writer.trigger(availableNow=True).start().awaitTermination()
        assert "Traceback" not in str(raised.value)
