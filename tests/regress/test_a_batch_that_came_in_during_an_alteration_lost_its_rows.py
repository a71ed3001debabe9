"""A batch ended between an alteration's look at the table and its put of the new schema: rows were hidden, nulls stood in NOT NULL.

With ``merge-engine`` set to first-row before the first snapshot, the rows of a batch that was acknowledged in between could not
be seen any more.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, make_context, write_attempt
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.testing.fault_store import FaultStore

FIELDS = [{"name": "id", "type": "BIGINT"}, {"name": "n", "type": "INT"}]
ROWS: list[dict[str, int | None]] = [{"id": 2, "n": None}, {"id": 3, "n": 3}]


def make(folder: Path, **options: str) -> lakeidx.Table:
    spec = {"fields": FIELDS, "primaryKeys": ["id"], "options": {"bucket": "-1", **options}}
    return lakeidx.Table.create(f"{folder}/wh/d.db/t", spec)


def rows(values: list[dict[str, int | None]]) -> pa.Table:
    return pa.Table.from_pylist(values, pa.schema([("id", pa.int64()), ("n", pa.int32())]))


def content(table: lakeidx.Table) -> list[dict[str, int | None]]:
    return sorted(lakeidx.Table.open(table.uri).scan().to_arrow().to_pylist(), key=lambda r: r["id"])


def handle_with_faults(table: lakeidx.Table) -> tuple[Table, FaultStore]:
    handle = Table.open(table.uri)
    store = FaultStore(handle.store)
    return Table(store, handle.metadata.paths), store


@pytest.mark.parametrize("edits", [{"set": {"merge-engine": "first-row"}}, {"set": {"bucket": "2"}}])
def test_the_first_batch_ends_before_options_of_an_empty_table_are_put(
    tmp_path: Path, edits: dict[str, object]
) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows(ROWS)), times=1)
    with pytest.raises(InvalidInputError, match="cannot change"):
        alter_table(handle, SchemaEdits(**edits))  # type: ignore[arg-type]
    assert content(table) == ROWS
    assert lakeidx.Table.open(table.uri).schema.options == {"bucket": "-1"}
    table.upsert(rows([{"id": 3, "n": 4}]))
    assert content(table) == [ROWS[0], {"id": 3, "n": 4}]


def test_nulls_come_in_before_a_column_becomes_not_null(tmp_path: Path) -> None:
    table = make(tmp_path, **{"alter-column-null-to-not-null.disabled": "false"})
    table.upsert(rows([{"id": 1, "n": 1}]))
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows(ROWS)), times=1)
    with pytest.raises(InvalidInputError, match="has rows with null"):
        alter_table(handle, SchemaEdits(nullable={"n": False}))
    now = lakeidx.Table.open(table.uri).schema
    assert (now.id, now.field("n").type.nullable) == (2, True)
    assert content(table) == [{"id": 1, "n": 1}, *ROWS]


def test_a_batch_that_is_about_to_be_committed_stays_what_it_was_written_for(tmp_path: Path) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    context = make_context(Table.open(table.uri).metadata, "b1")

    def stage(verb: str, path: str) -> None:
        ingest_rows(context, rows(ROWS))
        run_bucket_assignment(context, context.files.latest_attempt())
        write_attempt(context, context.files.latest_attempt())

    store.fail("put_if_absent", "/schema-1", act=stage, times=1)
    with pytest.raises(InvalidInputError, match="batch 'b1' is staged with the schema before this change"):
        alter_table(handle, SchemaEdits(set={"merge-engine": "first-row"}))
    commit_batch(context)
    assert content(table) == ROWS


def test_an_alteration_that_no_batch_could_be_broken_by_stays(tmp_path: Path) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows(ROWS)), times=1)
    assert alter_table(handle, SchemaEdits(add={"more": "INT"})).after == 1
    assert content(table) == [{**r, "more": None} for r in ROWS]
