"""With ``parquet.page.size`` of a few bytes Arrow wrote files of one row whose nested columns could not be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx


@pytest.mark.parametrize("size", ["0", "1", "5 b", "63"])
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_they_are_read(tmp_path: Path, size: str, rows: int) -> None:
    fields = [{"name": "k", "type": "BIGINT"}, {"name": "m", "type": {"type": "ARRAY", "element": "INT"}}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", "parquet.page.size": size}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    given = pa.table({"k": pa.array(range(rows), pa.int64()), "m": pa.array([[1]] * rows, pa.list_(pa.int32()))})
    table.upsert(given)
    assert table.scan().to_arrow().to_pylist() == given.to_pylist()
