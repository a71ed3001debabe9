"""Lookup joins: Spark's own join with the table's rows, or a dictionary, says what must come out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.spark import lookup_join
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec

pytestmark = pytest.mark.spark

SPEC = table_spec(
    "p INT, k BIGINT, v STRING, x DECIMAL(9, 2), day DATE",
    ["p", "k"],
    partitions=["p"],
    options={"bucket": "-1", "dynamic-bucket.target-row-num": "40"},
)


def filled(folder: Path) -> Table:
    table = Table.create(f"{folder}/d.db/t", SPEC)
    put(table, range(200), "a")
    run_lookup_store(table.metadata, LocalRunner(1))
    return table


def put(table: Table, keys: range, text: str) -> None:
    table.upsert(
        pa.table({"p": [k % 2 for k in keys], "k": list(keys), "v": [f"{text}{k}" for k in keys]}), missing="null"
    )


@pytest.mark.parametrize("by_bucket", [True, False])
def test_batch_left_and_inner(spark: SparkSession, tmp_path: Path, by_bucket: bool) -> None:
    table = filled(tmp_path)
    orders = [(n, n % 2 if n % 7 else None, 3 * n) for n in range(120)]
    frame = spark.createDataFrame(orders, "n INT, part INT, key LONG")
    model = {n: f"a{key}" for n, part, key in orders if part is not None and key < 200 and key % 2 == part}
    on = {"part": "p", "key": "k"}
    left = lookup_join(frame, table, on, {"v": "name", "day": "day"}, by_bucket=by_bucket)
    assert left.columns == ["n", "part", "key", "name", "day"]
    assert {r.n: r.name for r in left.collect()} == {n: model.get(n) for n, _, _ in orders}
    inner = lookup_join(frame, Path(table.uri), on, how="inner", by_bucket=by_bucket)
    assert {r.n: r.v for r in inner.collect()} == model


def test_stream_sees_new_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    stream = spark.readStream.schema("p INT, k LONG").json(str(source))
    joined = lookup_join(stream, table, ["p", "k"], ["v"], by_bucket=False)
    for text in ("a", "b"):
        if text == "b":
            put(table, range(10), "b")
        (source / f"{text}.json").write_text('{"p": 1, "k": 5}\n{"p": 0, "k": 999}\n')
        query = joined.writeStream.format("json").option("checkpointLocation", str(tmp_path / "cp"))
        query.trigger(availableNow=True).start(str(sink)).awaitTermination()
    found = spark.read.schema("p INT, k LONG, v STRING").json(str(sink)).collect()
    assert sorted((r.k, r.v or "") for r in found) == [(5, "a5"), (5, "b5"), (999, ""), (999, "")]


def test_wrong_columns_are_named(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    frame = spark.createDataFrame([(1, 2, "x")], "p INT, k LONG, v STRING")
    with pytest.raises(InvalidInputError, match="whole primary key"):
        lookup_join(frame, table, ["k"])
    with pytest.raises(InvalidInputError, match="already has a column 'v'"):
        lookup_join(frame, table, ["p", "k"], ["v"])
    with pytest.raises(InvalidInputError, match="left or inner"):
        lookup_join(frame, table, ["p", "k"], {"v": "w"}, how="outer")  # type: ignore[arg-type]
