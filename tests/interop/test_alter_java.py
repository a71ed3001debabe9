"""Schema changes with two writers: after each of them the released Java Paimon reads the table and goes on writing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from tests.java_paimon import JavaPaimon, require_java_paimon
from tests.schema_histories import SchemaHistory, write_by_lakeidx

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True, scope="module")
def _java() -> None:
    require_java_paimon()


def write_by_java(java: JavaPaimon, file: Path) -> Any:
    """A writer that gives rows to Java; its landing format has no rows inside rows, so those keys keep no ROW."""

    def write(history: SchemaHistory, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["r"] = None
        java.write([{n: None if v is None else str(v) for n, v in r.items()} for r in rows], file)

    return write


def java_rows(java: JavaPaimon) -> dict[int, dict[str, Any]]:
    rows = {}
    for row in java.json("read"):
        row.pop("_bucket")
        rows[row["k"]] = row
    return rows


def comparable(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Numbers as floats: Java prints decimals as text."""

    def value(v: Any) -> Any:
        if isinstance(v, dict):
            return {n: value(x) for n, x in v.items()}
        if isinstance(v, str):
            try:
                return float(v)
            except ValueError:
                return v
        return v if v is None else float(v)

    return {k: {n: value(v) for n, v in row.items()} for k, row in rows.items()}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_schema_histories_with_both_writers(tmp_path: Path, seed: int) -> None:
    history = SchemaHistory.begin(f"{tmp_path}/wh/d.db/t", seed)
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    by_java = write_by_java(java, tmp_path / "rows.jsonl")
    history.upsert(write_by_lakeidx)
    for turn in range(3):
        history.alter()
        history.upsert(by_java if turn % 2 == 0 else write_by_lakeidx)
        if turn == 1:
            history.compact()
        history.check()
        assert comparable(java_rows(java)) == comparable(history.rows)
    assert json.loads(Path(tmp_path / "wh/d.db/t/schema/schema-1").read_text())["id"] == 1


def test_columns_that_came_with_a_batch(tmp_path: Path) -> None:
    """Columns added and widened by `merge_schema`: Java goes on writing with them, and reads what both wrote."""
    fields = [{"name": "k", "type": "INT"}, {"name": "n", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "-1"}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    table.upsert([{"k": 1, "n": 10}])
    rows = pa.table({"k": pa.array([2], pa.int32()), "n": pa.array([2**40], pa.int64()), "city": ["Bern"]})
    table.upsert(rows, merge_schema=True)
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    java.write([{"k": "3", "n": str(2**41), "city": "Thun"}], tmp_path / "rows.jsonl")
    expected = {1: (10, None), 2: (2**40, "Bern"), 3: (2**41, "Thun")}
    assert {k: (r["n"], r["city"]) for k, r in java_rows(java).items()} == expected
    assert {r["k"]: (r["n"], r["city"]) for r in table.scan().to_arrow().to_pylist()} == expected
