"""Tables that paimon-rust and pypaimon wrote: read as their own readers do, and written on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.codec.containers.avro import header_schema
from lakeidx.quality.result import Severity
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden

TABLES = GOLDEN / "other-writers"
CASES = sorted(p.parent.name for p in TABLES.glob("*/expect.jsonl"))
Rows = dict[int, dict[str, Any]]


def expected(case: str) -> Rows:
    lines = (TABLES / case / "expect.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def content(table: Table) -> Rows:
    """The rows, by scan and by lookup alike."""
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    answer = table.lookup(pa.table({"id": pa.array(range(1, 12), pa.int32())})).to_pylist()
    assert {r["id"]: {k: v for k, v in r.items() if k != "_FOUND"} for r in answer if r["_FOUND"]} == found
    for row_id in range(1, 12):
        assert table.scan(where=f"id = {row_id}").to_arrow().to_pylist() == [found[i] for i in (row_id,) if i in found]
    names = table.scan(where="name >= 'a'", columns=["id"]).to_arrow().column("id").to_pylist()
    assert sorted(names) == sorted(found)
    assert [r for r in table.verify().findings if r.severity is Severity.ERROR] == []
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_others_wrote_is_read_and_written_on(case: str, tmp_path: Path) -> None:
    place = tmp_path / "d.db" / "t"
    shutil.copytree(TABLES / case / "table", place)
    model = expected(case)
    assert content(Table.open(place)) == model
    more = {2: "u", 9: "new"}
    kinds = {"k": "+I"} if "rowkind" in case else {}
    Table.open(place).upsert([{"id": i, "name": n, **kinds} for i, n in more.items()])
    model |= {i: {"id": i, "name": n, **kinds} for i, n in more.items()}
    assert content(Table.open(place)) == model
    Table.open(place).delete(pa.table({"id": pa.array([3], pa.int32())}))
    del model[3]
    assert content(Table.open(place)) == model
    Table.open(place).alter(set={"manifest.merge-min-count": 2, "manifest.compression": "zstd"})
    for _ in range(2):
        Table.open(place).compact(full=True)
        assert content(Table.open(place)) == model
        Table.open(place).upsert([model[9]])
    # Manifests of lakeidx are of Java's shape, whatever they are made of.
    newest = max((p for p in (place / "manifest").iterdir()), key=lambda p: p.stat().st_mtime_ns)
    assert header_schema(newest.read_bytes())["type"] == "record"
    assert content(Table.open(place)) == model


def test_manifests_of_rust_are_unions_of_null_and_a_record() -> None:
    """So the cases keep what they are there for."""
    for path in (TABLES / "rust_fixed" / "table" / "manifest").iterdir():
        assert header_schema(path.read_bytes())[0] == "null"
