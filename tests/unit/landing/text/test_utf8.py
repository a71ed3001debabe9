"""Text that is not UTF-8 is no value of a table: the row that has it is rejected, whatever brings it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx import InvalidInputError, Table
from lakeidx.landing.text.utf8 import is_utf8, without_broken_text
from lakeidx.landing.types import LandingOptions

FIELDS = [{"name": "k", "type": "STRING NOT NULL"}, {"name": "v", "type": "STRING"}]


def _table(folder: Path) -> Table:
    return Table.create(folder / "t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})


def _texts(*values: bytes | None) -> pa.Array:
    """A string array of these bytes, whatever they are; pyarrow itself makes none that is not UTF-8."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("jsonl", (b'{"k": "a", "v": "\xff"}', b'{"k": "b", "v": "x"}')),
        ("jsonl", (b'{"k": "\xed\xa0\x80", "v": "a"}', b'{"k": "b", "v": "x"}')),
        ("jsonl", (b'{"k": "a", "v": "y", "\xff": "1"}', b'{"k": "b", "v": "x"}')),
        ("debezium", (b'{"op": "c", "after": {"k": "a", "v": "\xff"}}', b'{"op": "c", "after": {"k": "b", "v": "x"}}')),
    ],
)
@pytest.mark.parametrize("merge_schema", ["refuse", "add"])
def test_json_with_other_bytes_was_stored(
    tmp_path: Path, kind: str, lines: tuple[bytes, bytes], merge_schema: str
) -> None:
    file, table = tmp_path / "rows.jsonl", _table(tmp_path)
    file.write_bytes(b"\n".join(lines) + b"\n")
    table.upsert_files([file], LandingOptions(format=kind, merge_schema=merge_schema))
    assert table.scan().to_arrow().to_pylist() == [{"k": "b", "v": "x"}]


@pytest.mark.parametrize("column", ["k", "v"])
def test_arrow_data_with_other_bytes_was_stored(tmp_path: Path, column: str) -> None:
    table = _table(tmp_path)
    rows = pa.table({"k": ["a", "b"], "v": ["x", "y"]})
    at = rows.column_names.index(column)
    with pytest.raises(InvalidInputError, match=rf"row 2: format: column {column} is not UTF-8 text"):
        table.upsert(rows.set_column(at, column, _texts(b"ok", b"\xff\xfe")))
    assert table.snapshot is None


def test_nested_values_and_dictionaries_are_judged_by_what_they_hold() -> None:
    text = _texts(b"ok", b"\xff", None, b"\xc3\xa9")
    rows = pa.table(
        {
            "plain": text,
            "list": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), text),
            "row": pa.StructArray.from_arrays([text], names=["a"]),
            "code": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), text.slice(0, 2)),
            "fine": ["é", "b", None, "d"],
        }
    )
    found, broken = without_broken_text(rows)
    assert list(broken) == ["plain", "list", "row", "code"]
    assert all(mask.tolist() == [False, True, False, False] for mask in broken.values())
    assert is_utf8(found)
    assert found.column("plain").to_pylist() == ["ok", None, None, "é"]
    assert found.column("fine") == rows.column("fine")
