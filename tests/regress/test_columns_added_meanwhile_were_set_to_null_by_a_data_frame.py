"""A data frame whose write another alteration overtook was staged again under the new columns, which became null without a word.

The same frame under a batch id that was committed is no new write: it is not asked for columns that the table has got since. After
a rollback it is one again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([1, 2], pa.int32()), "city": ["Bern", "Oslo"]})


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "n", "type": "INT"}]
    made = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    made.upsert([{"id": 1, "n": 10}])
    return made


def write(table: lakeidx.Table, rows: pa.Table, between: Callable[[], object] = lambda: None, **given: str) -> None:
    """Write a data frame as Spark does: one task, then the commit; something else happens before that."""
    options = {k.replace("_", "-"): v for k, v in given.items()}
    writer = TableWriter(ReadOptions.parse({"path": table.uri, **options}), rows.schema, overwrite=False)
    message = writer.write(iter(rows.to_batches()))
    between()
    writer.commit([message])


def rows_of(table: lakeidx.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = lakeidx.Table.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()
    return found


def add_and_fill(table: lakeidx.Table) -> None:
    table.alter(add={"level": "INT"})
    lakeidx.Table.open(table.uri).upsert([{"id": 1, "n": 10, "level": 7}])


def test_columns_that_were_added_meanwhile_are_not_set_to_null(table: lakeidx.Table) -> None:
    with pytest.raises(InvalidInputError, match="rows lack the columns level, and null would overwrite"):
        write(table, ROWS, lambda: add_and_fill(table), mergeSchema="true")
    # The refused batch has put no column of its own.
    assert rows_of(table) == [{"id": 1, "n": 10, "level": 7}]
    write(table, ROWS, lambda: table.alter(add={"other": "INT"}), mergeSchema="true", missing="null")
    assert rows_of(table)[0] == {"id": 1, "n": 1, "level": None, "other": None, "city": "Bern"}


def test_deletes_need_no_more_than_their_keys(table: lakeidx.Table) -> None:
    deletes = ROWS.append_column("_kind", pa.array(["-D", "-D"]))
    write(table, deletes, lambda: add_and_fill(table), mergeSchema="true")
    assert rows_of(table) == []
    upserts = ROWS.append_column("_kind", pa.array(["-D", "+U"])).append_column("new", pa.array([1, 2]))
    full = upserts.append_column("level", pa.array([1, 2], pa.int32()))
    with pytest.raises(InvalidInputError, match="rows lack the columns more"):
        write(table, full, lambda: table.alter(add={"more": "INT"}), mergeSchema="true")


def test_a_frame_that_comes_again_is_not_asked_for_columns_of_later(table: lakeidx.Table) -> None:
    frame = ROWS.select(["id", "n"])
    write(table, frame, batch_id="b")
    table.alter(add={"level": "INT"})
    write(table, frame, batch_id="b")
    assert [s["id"] for s in table.snapshots()] == [1, 2]
    table.rollback(snapshot=1)
    with pytest.raises(InvalidInputError, match="rows lack the columns level"):
        write(table, frame, batch_id="b")
    assert rows_of(table) == [{"id": 1, "n": 10, "level": None}]


def test_a_frame_whose_batch_is_rolled_back_while_it_is_written_is_asked(table: lakeidx.Table) -> None:
    frame = ROWS.select(["id", "n"])
    write(table, frame, batch_id="b")
    table.alter(add={"level": "INT"})
    with pytest.raises(InvalidInputError, match="rows lack the columns level"):
        write(table, frame, lambda: table.rollback(snapshot=1), batch_id="b")
    assert rows_of(table) == [{"id": 1, "n": 10, "level": None}]
