"""`Table.delete` wrote a column's default in the place of a null of the row it deleted, so a changelog took back another row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx


@pytest.mark.parametrize("by", ["where", "keys"])
def test_a_delete_retracts_the_row_that_is_stored(tmp_path: Path, by: str) -> None:
    """The default came after the row, which therefore has null there."""
    fields = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "1", "changelog-producer": "input"}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": options})
    table.upsert(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    table.alter(add={"n": "INT"}, defaults={"n": "42"})
    keys = pa.table({"k": pa.array([1], pa.int32())})
    assert (table.delete(keys) if by == "keys" else table.delete(where="v = 'a'")) is not None
    row = {"k": 1, "v": "a", "n": None}
    changes = table.changes(0).to_arrow().to_pylist()
    assert [c for c in changes if c["k"] == 1] == [{**row, "_rowkind": "+I"}, {**row, "_rowkind": "-D"}]
