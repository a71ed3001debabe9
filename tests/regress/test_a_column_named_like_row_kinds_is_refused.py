"""A column ``_kind`` was accepted and then its values were taken for row kinds; ``_FOUND`` came twice out of a lookup."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError


def _create(folder: Path, column: str) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": column, "type": "STRING"}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )


@pytest.mark.parametrize("column", ["_kind", "_FOUND"])
def test_create_refuses_the_name(tmp_path: Path, column: str) -> None:
    """One line that names the column."""
    with pytest.raises(InvalidInputError, match=f"column name '{column}' is reserved"):
        _create(tmp_path, column)
    assert not (tmp_path / "d.db" / "t" / "schema").exists()


def _as_if_java_had_made_it(folder: Path, column: str) -> lakeidx.Table:
    """A table of another writer: the column gets its name in the schema file."""
    _create(folder, "x")
    schema = folder / "d.db" / "t" / "schema" / "schema-0"
    text = json.loads(schema.read_text())
    text["fields"][1]["name"] = column
    schema.write_text(json.dumps(text))
    return lakeidx.Table.open(f"{folder}/d.db/t")


def test_rows_for_such_a_table_are_refused(tmp_path: Path) -> None:
    """No row is lost in silence, whichever way it comes in; nothing is committed."""
    table = _as_if_java_had_made_it(tmp_path, "_kind")
    landing = tmp_path / "rows.jsonl"
    landing.write_text('{"id":1,"_kind":"-D"}\n{"id":2,"_kind":"other"}\n')
    with pytest.raises(InvalidInputError, match="has a column '_kind'"):
        table.upsert_files([str(landing)])
    with pytest.raises(InvalidInputError, match="has a column '_kind'"):
        table.upsert(pa.table({"id": [1], "_kind": ["-D"]}))
    assert table.snapshot is None


def test_lookups_never_answer_a_name_twice(tmp_path: Path) -> None:
    """A table of another writer with a column ``_FOUND`` takes rows and is scanned, lookups say what to do."""
    table = _as_if_java_had_made_it(tmp_path, "_FOUND")
    table.upsert(pa.table({"id": [1], "_FOUND": ["x"]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "_FOUND": "x"}]
    with pytest.raises(InvalidInputError, match="has a column '_FOUND'"):
        table.lookup(pa.table({"id": [1]}))
