"""Tables whose compactions look keys up: a record above level 0 holds what lies below it, and no reader may count it twice."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon, require_java_paimon
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.interop

KEYS = 300
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
REMOVING = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
TABLES: dict[str, Mapping[str, str]] = {
    "sum, lookup": {**SUM, "changelog-producer": "lookup"},
    "sum, force-lookup": {**SUM, "force-lookup": "true"},
    "sum, vectors": {**SUM, "deletion-vectors.enabled": "true"},
    "partial update, lookup": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "removing partial update, force-lookup": {**REMOVING, "force-lookup": "true"},
    "removing partial update, lookup": {**REMOVING, "changelog-producer": "lookup"},
    "sequence field, lookup": {"sequence.field": "v", "changelog-producer": "lookup"},
    "first row": {"merge-engine": "first-row"},
}


@pytest.fixture(autouse=True, scope="module")
def _witness() -> None:
    require_java_paimon()


Rows = dict[int, tuple[int | None, str | None]]


def rows_by_java(java: JavaPaimon) -> Rows:
    return {int(r["k"]): (None if r["v"] is None else int(r["v"]), r["w"]) for r in java.json("read")}


def rows_by_us(place: Path) -> Rows:
    return {r["k"]: (r["v"], r["w"]) for r in Table.open(str(place)).scan().to_arrow().to_pylist()}


def levels(place: Path) -> set[int]:
    table = Table.open(str(place))
    return {e.file.level for e in load_view(table.metadata, table.snapshot).entries}


def batch(r: random.Random, size: int, deletes: bool) -> list[dict[str, Any]]:
    def value() -> int | None:
        found: int | None = r.choice([None, *range(5)])
        return found

    kinds = ["+I", "+I", "-D"] if deletes else ["+I"]
    return [
        {"k": r.randrange(KEYS), "v": value(), "w": r.choice([None, "a", "b"]), "_kind": r.choice(kinds)}
        for _ in range(size)
    ]


def java_table(name: str, folder: Path) -> tuple[JavaPaimon, Path]:
    """A table made by Java, and where it lies."""
    spec = {
        "fields": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "BIGINT"}, {"name": "w", "type": "STRING"}],
        "primaryKeys": ["k"],
        "partitionKeys": [],
        "options": {"bucket": "1", "num-sorted-run.compaction-trigger": "4", **TABLES[name]},
    }  # fmt: skip
    (folder / "schema.json").write_text(json.dumps(spec))
    place = folder / "wh" / "d.db" / "t"
    java = JavaPaimon(str(folder / "wh"), "d.t")
    java.run("create", str(folder / "schema.json"))
    return java, place


@pytest.mark.parametrize("name", TABLES)
def test_both_read_the_same(name: str, tmp_path: Path) -> None:
    java, place = java_table(name, tmp_path)
    r = random.Random(name)
    deletes = "removing" in name
    deepest = 0
    for i in range(7):
        written = [
            {k: None if v is None else str(v) for k, v in row.items()}
            for row in batch(r, 200 if i == 0 else 15, deletes)
        ]
        java.write(written, tmp_path / "rows.jsonl")
        assert rows_by_us(place) == rows_by_java(java)
        deepest = max(deepest, len(levels(place)))
    # Else the test would show nothing: one level holds everything.
    assert deepest >= 2
    for i in range(3):
        rows = batch(r, 15, deletes)
        columns = {"k": pa.int32(), "v": pa.int64(), "w": pa.string(), "_kind": pa.string()}
        table = Table.open(str(place))
        upsert_table(
            make_context(table.metadata, f"b{i}", runner=LocalRunner(1)),
            pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()}),
        )
        assert rows_by_us(place) == rows_by_java(java)
    table = Table.open(str(place))
    run_compaction(table.metadata, LocalRunner(1))
    assert rows_by_us(place) == rows_by_java(java)


@pytest.mark.parametrize("name", ["sum, lookup", "sum, force-lookup", "removing partial update, lookup"])
def test_point_lookups_read_the_same(name: str, tmp_path: Path) -> None:
    java, place = java_table(name, tmp_path)
    r = random.Random(name)
    keys = pa.table({"k": pa.array(range(KEYS), pa.int32())})
    for i in range(6):
        written = [
            {k: None if v is None else str(v) for k, v in row.items()}
            for row in batch(r, 200 if i == 0 else 15, "removing" in name)
        ]
        java.write(written, tmp_path / "rows.jsonl")
        want = rows_by_java(java)
        for stored in (False, True):
            if stored:
                run_lookup_store(Table.open(str(place)).metadata, LocalRunner(1))
            found = lakeidx.Table.open(str(place)).lookup(keys).to_pylist()
            got = {k: (row["v"], row["w"]) for k, row in enumerate(found) if row["k"] is not None}
            assert got == want
