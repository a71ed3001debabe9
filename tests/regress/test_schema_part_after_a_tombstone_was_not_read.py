"""Debezium messages with their schema part after the payload: behind a tombstone it was not read, and times had another unit."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx import LandingOptions

_ROW = [{"type": "int32", "field": "id"}, {"type": "int64", "name": "io.debezium.time.Timestamp", "field": "at"}]
SCHEMA = {"type": "struct", "fields": [{"type": "struct", "fields": _ROW, "field": "after"}]}


def message(key: int, ms: int) -> dict[str, Any]:
    return {"payload": {"op": "c", "before": None, "after": {"id": key, "at": ms}}, "schema": SCHEMA}


@pytest.mark.parametrize(
    "before", ["null", '{"payload": null}', '{"payload": {"op": "m"}}', '{"op": "m", "source": {"schema": "public"}}']
)
def test_times_have_the_unit_that_the_schema_part_says(tmp_path: Path, before: str) -> None:
    table = lakeidx.Table.create(
        str(tmp_path / "wh/d.db/t"),
        {
            "fields": [{"name": "id", "type": "INT"}, {"name": "at", "type": "TIMESTAMP(6)"}],
            "primaryKeys": ["id"],
            "options": {"bucket": "1"},
        },
    )
    messages = [json.dumps(message(key, 1_700_000_000_123 + key)) for key in range(3)]
    landing = tmp_path / "changes.json"
    landing.write_text("\n".join([messages[0], before, *messages[1:], ""]), encoding="utf-8")
    table.upsert_files([landing], LandingOptions(format="debezium"))
    assert [r["at"] for r in table.scan().to_arrow().sort_by("id").to_pylist()] == [
        datetime(2023, 11, 14, 22, 13, 20, 123_000 + 1000 * key) for key in range(3)
    ]
