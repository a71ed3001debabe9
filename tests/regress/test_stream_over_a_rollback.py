"""A stream whose snapshot was rolled back left out the rows that came after it; a join worker answered from a dropped table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, TableReplacedError
from lakeidx.maintenance.rollback import roll_back_table
from tests.kit.small_tables import SPEC, make_table, rows, upsert

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakeidx.spark import joins
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.streams.reader import TableStreamReader

ALL = ReadAllAvailable()


def reader(table: Table) -> TableStreamReader:
    """A stream over the table's columns."""
    columns = table.schema.field_names
    return TableStreamReader(ReadOptions.parse({"path": table.uri}), columns, table.schema.arrow_schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    for k in range(3):
        upsert(made, [(1, k, "row")])
    return made


@pytest.mark.slow
def test_a_stream_over_a_rollback_stops(table: Table) -> None:
    stream = reader(table)
    start: dict[str, Any] = stream.latestOffset(stream.initialOffset(), ALL)
    assert start["snapshot"] == 3
    other = Table.open(table.uri)
    roll_back_table(other.metadata, other.schema, snapshot_id=1)
    for newer in range(3):
        for running in (stream, reader(table)):
            with pytest.raises(InvalidInputError, match="snapshot 3, which was rolled back or replaced"):
                running.latestOffset(start, ALL)
            with pytest.raises(InvalidInputError, match="snapshot 3, which was rolled back or replaced"):
                running.partitions(start, {"snapshot": 9})
        upsert(other, [(1, 10 + newer, "new")])


def test_a_stream_continues_over_commits_and_expired_snapshots(table: Table) -> None:
    stream = reader(table)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.latestOffset(start, ALL) == start
    assert list(stream.partitions(start, start)) == []
    upsert(Table.open(table.uri), [(1, 7, "new")])
    end = stream.latestOffset(start, ALL)
    assert [b.num_rows for s in stream.partitions(start, end) for b in stream.read(s)] == [1]
    for snapshot_id in (1, 2, 3):
        Path(table.paths.snapshot_path(snapshot_id)).unlink()
    assert stream.latestOffset(start, ALL) == end
    assert stream.latestOffset({"snapshot": 3}, ALL) == end


def test_a_stream_over_a_dropped_table_stops(table: Table) -> None:
    stream = reader(table)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(table.uri)
    new = Table.create(table.uri, {**SPEC, "comment": "again"})
    for k in range(4):
        upsert(new, [(1, k, "new")])
    with pytest.raises(TableReplacedError):
        stream.latestOffset(start, ALL)
    with pytest.raises(InvalidInputError, match="rolled back or replaced"):
        reader(new).latestOffset(start, ALL)


def test_a_join_worker_opens_the_table_that_was_created_again(table: Table) -> None:
    def join_of(handle: Table) -> joins._Join:
        added, keys = pa.schema([("name", pa.string())]), tuple(handle.schema.field(n) for n in "pk")
        return joins._Join(
            handle.metadata, (("p", "p"), ("k", "k")), (("v", "name"),), False, None, None, added, keys, "UTC"
        )

    def joined(join: joins._Join) -> list[str | None]:
        batches = rows([(1, 1, None), (1, 9, None)]).select(["p", "k"]).to_batches()
        found: list[str | None] = pa.Table.from_batches(joins._Joining(join)(batches)).column("name").to_pylist()
        return found

    join = join_of(table)
    assert table.metadata.table_id
    assert joined(join) == ["row", None]
    shutil.rmtree(table.uri)
    upsert(Table.create(table.uri, {**SPEC, "comment": "again"}), [(1, 9, "new")])
    assert joined(join) == [None, "new"]
    shutil.rmtree(table.uri)
    fields = [*SPEC["fields"][:2], {"name": "w", "type": "STRING"}]
    Table.create(table.uri, {**SPEC, "fields": fields})
    with pytest.raises(InvalidInputError, match="created again and has no column 'v'"):
        joined(join)
