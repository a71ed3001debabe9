"""A lookup kept its answer's columns under the name of the table's: after it they all were nullable, or the answer's were not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table

FIELDS = [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "STRING NOT NULL"}]


@pytest.mark.parametrize("first", ["lookup", "schema"])
def test_each_has_its_own(tmp_path: Path, first: str) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    table.upsert([{"k": 1, "v": "a"}])
    table = Table.open(table.uri)
    if first == "schema":
        assert not table.schema.arrow_schema.field("v").nullable
    answer = table.lookup(pa.table({"k": [2]}))
    assert answer.to_pylist() == [{"_FOUND": False, "k": None, "v": None}]
    assert all(answer.schema.field(name).nullable for name in ("k", "v"))
    assert not any(f.nullable for f in table.schema.arrow_schema)
    assert not any(f.nullable for f in table.schema.kv_arrow_schema)
