"""A lookup that stays open over a change of the schema went on in the schema before, until somebody committed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.lookup.point.table_lookup import TableLookup

KEY = pa.table({"k": pa.array([1], pa.int32())})


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    fields = [{"name": n, "type": "INT"} for n in ("k", "a", "b")]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    table.upsert(pa.table({n: pa.array([v], pa.int32()) for n, v in (("k", 1), ("a", 10), ("b", 20))}))
    return table


def test_names_that_changed_places_have_their_values(table: lakeidx.Table) -> None:
    opened = lakeidx.Table.open(table.uri)
    assert opened.lookup(KEY).to_pylist() == [{"_FOUND": True, "k": 1, "a": 10, "b": 20}]
    table.alter(rename={"a": "was_a"})
    table.alter(rename={"b": "a"})
    table.alter(rename={"was_a": "b"})
    assert opened.lookup(KEY).to_pylist() == [{"_FOUND": True, "k": 1, "b": 10, "a": 20}]
    table.alter(types={"a": "BIGINT"}, drop=["b"], add={"c": "STRING"})
    answer = opened.lookup(KEY)
    assert answer.to_pylist() == [{"_FOUND": True, "k": 1, "a": 20, "c": None}]
    assert answer.schema.field("a").type == pa.int64()
    table.alter(rename={"k": "id"})
    assert opened.lookup(KEY.rename_columns(["id"])).to_pylist() == [{"_FOUND": True, "id": 1, "a": 20, "c": None}]


def test_a_pinned_lookup_keeps_the_schema_of_its_first_answer(table: lakeidx.Table) -> None:
    pinned = TableLookup(table.metadata, pinned=True)
    pinned.lookup(KEY)
    table.alter(drop=["b"])
    assert pinned.lookup(KEY).rows.column_names == ["k", "a", "b"]
