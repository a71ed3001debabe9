"""A null ROW whose type has a NOT NULL field ended the batch with Arrow's own error while it was staged."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx

_ROW = {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING NOT NULL"}]}
_KINDS = {
    "row": _ROW,
    "row in row": {"type": "ROW", "fields": [{"name": "r", "type": _ROW}]},
    "array of rows": {"type": "ARRAY", "element": _ROW},
    "map of rows": {"type": "MAP", "key": "STRING NOT NULL", "value": _ROW},
    "required elements": {"type": "ROW", "fields": [{"name": "a", "type": {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}}]},
    "variant": "VARIANT",
}  # fmt: skip
_FULL = {
    "row": {"x": 1, "y": "a"},
    "row in row": {"r": {"x": None, "y": "b"}},
    "array of rows": [{"x": 1, "y": "a"}, None],
    "map of rows": {"k": {"x": 1, "y": "a"}, "l": None},
    "required elements": {"a": [1, 2]},
    "variant": {"value": "0c01", "metadata": "010000"},
}


def _table(folder: Path, kind: str) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "r", "type": _KINDS[kind]}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )


@pytest.mark.parametrize("kind", sorted(_KINDS))
def test_null_and_missing_rows(tmp_path: Path, kind: str) -> None:
    """Null, left out and given, from a file and from memory."""
    table = _table(tmp_path, kind)
    landing = tmp_path / "rows.jsonl"
    lines = [{"id": 1, "r": None}, {"id": 2}, {"id": 3, "r": _FULL[kind]}]
    landing.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table.upsert_files([str(landing)], lakeidx.LandingOptions(missing="null"))
    table.upsert(pa.table({"id": [4]}), missing="null")
    found = {r["id"]: r["r"] for r in table.scan().to_arrow().to_pylist()}
    assert {k for k, v in found.items() if v is None} == {1, 2, 4}
    assert found[3] is not None
    assert table.lookup(pa.table({"id": [1, 3]})).column("r").to_pylist() == [None, found[3]]


@pytest.mark.parametrize("kind", ["row", "variant"])
def test_arrow_data_with_null_below_a_null(tmp_path: Path, kind: str) -> None:
    """It was rejected as text that is not UTF-8; of Spark 4.2 every null VARIANT is such."""
    table = _table(tmp_path, kind)
    full = {"x": 1, "y": "a"} if kind == "row" else {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
    fields = list(table.schema.arrow_schema.field("r").type)
    children = [pa.array([None, v], f.type) for f, v in zip(fields, full.values(), strict=True)]
    values = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array([True, False]))
    table.upsert(pa.table({"id": [1, 2], "r": values}))
    assert table.scan().to_arrow().sort_by("id").column("r").to_pylist() == [None, full]
