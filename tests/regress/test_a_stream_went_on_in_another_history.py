"""A stream stopped, what it had read was rolled back and expired under other rows: started again, it went on in silence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.stream.follow import ChangeFollower
from lakeidx.table.stream.position import Position
from tests.kit.small_tables import make_table, upsert

READ = 6
REFUSED = "read up to snapshot 6, which has expired while the stream did not run"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    for k in range(READ):
        upsert(made, [(1, k, "row")])
    return made


def expire(table: Table, left: int) -> None:
    expire_table(
        table.metadata, table.schema, now_ms=round(time.time() * 1000), retention=Retention(num_min=left, num_max=left)
    )


def in_other_history(table: Table) -> Table:
    """Roll back below what was read, commit until there is another snapshot 7, and let all before that expire."""
    roll_back_table(table.metadata, table.schema, snapshot_id=3)
    for k in range(4):
        upsert(table, [(1, 100 + k, "new")])
    expire(table, 1)
    again = Table.open(table.uri)
    assert again.metadata.snapshot_ids() == [READ + 1]
    return again


def spark_offset(table: Table) -> dict[str, Any]:
    reader = spark_reader(table)
    start: dict[str, Any] = reader.latestOffset(reader.initialOffset(), _all())
    reader.stop()
    return start


def spark_reader(table: Table, **options: str) -> Any:
    pytest.importorskip("pyspark")
    from lakeidx.spark.read_options import ReadOptions
    from lakeidx.spark.streams.reader import TableStreamReader

    given = ReadOptions.parse({"path": table.uri, **options})
    return TableStreamReader(given, table.schema.field_names, table.schema.arrow_schema)


def _all() -> Any:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def test_a_stream_that_cannot_be_compared_is_refused(table: Table) -> None:
    newest = table.metadata.latest_snapshot()
    assert newest is not None
    offset = spark_offset(table)
    assert offset["snapshot"] == newest.id == READ
    after = in_other_history(table)
    with pytest.raises(InvalidInputError, match=REFUSED):
        next(ChangeFollower(after.metadata).steps(Position(newest.id, newest.identity)))
    calls: list[Callable[[Any], Any]] = [
        lambda reader: reader.latestOffset(offset, _all()),
        lambda reader: reader.partitions(offset, {"snapshot": READ + 1}),
    ]
    for call in calls:
        # A consumer that was new when the stream came back knows no more than the stream does.
        for options in ({}, {"consumer-id": "late"}):
            with pytest.raises(InvalidInputError, match=REFUSED):
                call(spark_reader(after, **options))


def test_a_consumer_that_stood_there_keeps_what_tells(table: Table) -> None:
    reader = spark_reader(table, **{"consumer-id": "c"})
    offset = reader.latestOffset(reader.initialOffset(), _all())
    reader.commit(offset)
    upsert(table, [(1, 9, "row")])
    expire(table, 1)
    assert table.metadata.snapshot_ids() == [READ + 1]
    again = spark_reader(Table.open(table.uri), **{"consumer-id": "c"})
    end = again.latestOffset(offset, _all())
    assert end["snapshot"] == READ + 1
    assert [b.num_rows for split in again.partitions(offset, end) for b in again.read(split)] == [1]


def test_a_consumer_hears_of_the_rollback(table: Table) -> None:
    reader = spark_reader(table, **{"consumer-id": "c"})
    offset = reader.latestOffset(reader.initialOffset(), _all())
    reader.commit(offset)
    roll_back_table(table.metadata, table.schema, snapshot_id=3)
    for k in range(4):
        upsert(table, [(1, 100 + k, "new")])
    expire(table, 1)
    again = Table.open(table.uri)
    assert again.metadata.snapshot_ids() == [READ, READ + 1]
    with pytest.raises(InvalidInputError, match="snapshot 6, which was rolled back or replaced"):
        spark_reader(again, **{"consumer-id": "c"}).latestOffset(offset, _all())
