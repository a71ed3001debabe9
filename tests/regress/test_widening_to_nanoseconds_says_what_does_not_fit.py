"""A time of the year 9999 under a column widened to TIMESTAMP(9) was called a damaged file."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import UnsupportedError


@pytest.mark.parametrize(
    ("old", "value"),
    [
        ("TIMESTAMP(3)", datetime(9999, 12, 31)),
        ("TIMESTAMP(6)", datetime(1, 1, 1)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", datetime(9999, 12, 31)),
        ("DATE", date(9999, 12, 31)),
    ],
)
def test_the_column_is_named_and_the_others_are_read(tmp_path: Path, old: str, value: datetime) -> None:
    """UnsupportedError with the column; other columns are there, and a value that fits is right."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {
            "fields": [{"name": "id", "type": "INT"}, {"name": "t", "type": old}],
            "primaryKeys": ["id"],
            "partitionKeys": [],
            "options": {"bucket": "1"},
        },
    )
    table.upsert(pa.table({"id": [1], "t": pa.array([value])}))
    folder = tmp_path / "d.db" / "t" / "schema"
    schema = json.loads((folder / "schema-0").read_text())
    schema["id"] = 1
    schema["fields"][1]["type"] = old.replace("(3)", "(9)").replace("(6)", "(9)").replace("DATE", "TIMESTAMP(9)")
    (folder / "schema-1").write_text(json.dumps(schema))
    table = lakeidx.Table.open(f"{tmp_path}/d.db/t")
    with pytest.raises(UnsupportedError, match=r"column 't' changed from .* beyond the years 1677 to 2262"):
        table.scan().to_arrow()
    assert table.scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]
    table.upsert(pa.table({"id": [1], "t": pa.array([datetime(2024, 1, 2)], pa.timestamp("us"))}))
    assert table.scan(columns=["id"]).to_arrow().num_rows == 1
