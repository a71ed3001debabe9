"""Bytes as each tool writes them; what is not written so is rejected, also where it could be taken for hex."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.landing.read import LandingOptions


def message(form: str, row: dict[str, Any]) -> dict[str, Any]:
    messages: dict[str, dict[str, Any]] = {
        "debezium": {"op": "c", "after": row},
        "maxwell": {"type": "insert", "data": row},
        "canal": {"type": "INSERT", "data": [row]},
        "ogg": {"op_type": "I", "after": row},
    }
    return messages[form]


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("debezium", {"q83v": b"\xab\xcd\xef", "abcd": b"i\xb7\x1d", "": b""}, ["abcdef", "é"]),
        ("maxwell", {"q83v": b"\xab\xcd\xef", "abcd": b"i\xb7\x1d", "": b""}, ["abcdef", "é"]),
        ("canal", {"\x00ÿ": b"\x00\xff", "abcd": b"abcd", "": b""}, ["日", "ab日"]),
        ("ogg", {"abCD": b"\xab\xcd", "": b""}, ["abc", "q83v"]),
    ],
)
def test_bytes(form: str, good: dict[str, bytes], bad: list[str], tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "INT"}, {"name": "v", "type": "BYTES"}]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    for name, texts in (("a", list(good)), ("b", [*good, *bad])):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(message(form, {"id": i, "v": v})) + "\n" for i, v in enumerate(texts)))
        result = table.upsert_files([file], LandingOptions(format=form))
        assert table.scan().to_arrow().column("v").to_pylist() == list(good.values())
    found = read_rejected(table.store, result.ingest.rejected_path or "").to_pylist()
    assert [r["line"] for r in found] == [len(good) + 1, len(good) + 2]
    assert all(r["reason"].startswith("cast: column v is not BYTES") for r in found)
