"""A frame of Spark is the state of the table when it was loaded: one of its queries gave older rows than another one.

Spark pickles the source when a frame is loaded (with columns of its own: before its first query), and asks the pickle for a reader
once or for each query.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from lakeidx.api import Table
from lakeidx.api.warehouse import drop_table
from lakeidx.errors import NotFoundError, TableReplacedError
from lakeidx.spark.datasource import LakeIdxDataSource
from tests.kit.spark_fixture import spark

__all__ = ["spark"]

SPEC = {
    "fields": [{"name": "id", "type": "INT"}, {"name": "a", "type": "STRING"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"},
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/d.db/t", SPEC)
    put(made, range(5))
    return made


def put(table: Table, ids: range) -> None:
    table.upsert([{"id": i, "a": f"{i}"} for i in ids])


def load(table: Table, *, by: StructType | None = None, **options: str) -> tuple[LakeIdxDataSource, StructType]:
    """Load a frame as Spark does: `by`, the columns that the caller names."""
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    source = LakeIdxDataSource({"path": table.uri, **named})
    columns = source.schema() if by is None else by
    return pickle.loads(pickle.dumps(source)), columns


def ids(frame: tuple[LakeIdxDataSource, StructType]) -> list[int]:
    """Query a frame as Spark does: plan it anew, and read the splits."""
    source, columns = pickle.loads(pickle.dumps(frame))
    reader = source.reader(columns)
    return sorted(i for split in reader.partitions() for batch in reader.read(split) for i in batch["id"].to_pylist())


def test_what_is_loaded_stays(table: Table) -> None:
    table.create_tag("t")
    columns = StructType([StructField("id", IntegerType())])
    put(table, range(5, 8))
    frames = {
        "newest": (load(table), 8),
        "own columns": (load(table, by=columns), 8),
        "tag": (load(table, scan__tag_name="t"), 5),
        "time": (load(table, scan__timestamp_millis="4102444800000"), 8),
        "range": (load(table, incremental_between="1,2"), 3),
        "range of times": (load(table, incremental_between_timestamp="0,4102444800000"), 8),
    }
    empty = load(Table.create(f"{table.uri}_empty", SPEC))
    put(table, range(8, 20))
    put(Table.open(f"{table.uri}_empty"), range(3))
    table.delete_tag("t")
    table.create_tag("t")
    for name, (frame, rows) in frames.items():
        assert ids(frame) == list(range(8 - rows, 8)) if name == "range" else list(range(rows)), name
    assert ids(empty) == []
    assert len(ids(load(table))) == 20


def test_columns_that_come_later_are_not_those_of_the_frame(table: Table) -> None:
    frame = load(table)
    table.alter(add={"b": "INT"})
    table.upsert([{"id": 9, "a": "9", "b": 9}])
    assert frame[1].names == ["id", "a"]
    assert ids(frame) == list(range(5))
    assert load(table)[1].names == ["id", "a", "b"]


def _expire(table: Table) -> None:
    put(table, range(3, 9))
    table.compact(full=True)
    table.expire(retain_max=1, retain_min=1)


def _create_again(table: Table) -> None:
    drop_table(table)
    put(Table.create(table.uri, SPEC), range(2))


def _roll_back(table: Table) -> None:
    table.rollback(snapshot=1)
    put(table, range(4))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_expire, NotFoundError, r"snapshot 2 of .* expired while it was read .*: read again"),
        (_roll_back, NotFoundError, r"snapshot 2 of .* was rolled back while it was read .*: read again"),
        (_create_again, TableReplacedError, "dropped"),
    ],
)
def test_a_frame_whose_state_is_gone_says_so(
    table: Table, change: Callable[[Table], None], error: type[Exception], says: str
) -> None:
    put(table, range(6))
    frame = load(table)
    change(table)
    with pytest.raises(error, match=says):
        ids(frame)


@pytest.mark.spark
@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_queries_on_one_frame(spark: SparkSession, table: Table, pushdown: str) -> None:
    """With filters pushed into other people's sources, too: Spark plans each query anew then."""
    key = "spark.sql.python.filterPushdown.enabled"
    before = str(spark.conf.get(key))
    spark.conf.set(key, pushdown)
    try:
        frame = spark.read.format("lakeidx").load(table.uri)
        named = spark.read.format("lakeidx").schema("id INT").load(table.uri)
        put(table, range(5, 8))
        assert (frame.count(), len(frame.collect()), named.count()) == (5, 5, 8)
        put(table, range(8, 10))
        assert (frame.count(), len(frame.collect()), named.count(), len(named.collect())) == (5, 5, 8, 8)
        assert frame.where("id = 3").union(frame).count() == 6
        assert frame.count() == 5
        assert frame.alias("x").join(frame.alias("y"), "id").count() == 5
        assert spark.read.format("lakeidx").load(table.uri).count() == 10
    finally:
        spark.conf.set(key, before)
