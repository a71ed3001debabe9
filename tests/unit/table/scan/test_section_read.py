"""Sections merged by the age of their files and by sequence numbers give the same rows, and who may go by age."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.table.scan import section_read
from lakeidx.table.scan.table_scan import TableScan

SPEC = {
    "fields": [
        {"name": "k", "type": "BIGINT"},
        {"name": "n", "type": "INT"},
        {"name": "v", "type": "INT"},
        {"name": "t", "type": "STRING"},
    ],
    "primaryKeys": ["k", "n"],
    "options": {"bucket": "2", "num-sorted-run.compaction-trigger": "100"},
}


def make(folder: Path, options: dict[str, str] | None = None) -> tuple[Table, dict[tuple[int, int], int]]:
    """A first batch of many keys and three of some of them; and what a dictionary has of them."""
    table = Table.create(f"{folder}/d.db/t", {**SPEC, "options": {**SPEC["options"], **(options or {})}})  # type: ignore[dict-item]
    rng = np.random.default_rng(5)
    model: dict[tuple[int, int], int] = {}
    for batch in range(4):
        keys = np.arange(6000) if batch == 0 else rng.choice(8000, 500, replace=False)
        values = rng.integers(0, 1000, len(keys)) + 1000 * batch
        k, n = keys // 3, keys % 3
        texts = [f"text {v}" for v in values.tolist()]
        rows = {"k": k, "n": n.astype(np.int32), "v": values.astype(np.int32), "t": texts}
        table.upsert(pa.table(rows))
        model |= dict(zip(zip(k.tolist(), n.tolist(), strict=True), values.tolist(), strict=True))
    return table, model


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way sections were merged."""
    found: list[str] = []

    def noted(name: str, merge: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            found.append(name)
            return merge(*args, **more)

        return run

    for name in ("merge_by_age", "merge_sorted_runs"):
        monkeypatch.setattr(section_read, name, noted(name, getattr(section_read, name)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, ["v"], ["t"], ["n", "t"], []])
@pytest.mark.parametrize("where", [None, "v < 500", "k > 700 AND t = 'text 12'"])
def test_by_age_as_by_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merges: list[str], columns: list[str] | None, where: str | None
) -> None:
    table, model = make(tmp_path)

    def read() -> list[pa.Table]:
        return list(table.scan(where=where, columns=columns).batches())

    tables = read()
    assert set(merges) == {"merge_by_age"}
    monkeypatch.setattr(section_read, "oldest_first", lambda section: None)
    merges.clear()
    assert tables == read()
    assert set(merges) == {"merge_sorted_runs"}
    if where is None:
        assert sum(t.num_rows for t in tables) == len(model)
    if where is None and columns is None:
        found = pa.concat_tables(tables)
        rows = zip(*(found.column(n).to_pylist() for n in ("k", "n", "v", "t")), strict=True)
        assert {(k, n): (v, t) for k, n, v, t in rows} == {key: (v, f"text {v}") for key, v in model.items()}


def test_who_wants_system_columns_gets_them(tmp_path: Path, merges: list[str]) -> None:
    table, model = make(tmp_path)
    for wanted in ({"keep_sequence": True}, {"keep_deletes": True}):
        rows = TableScan(table.metadata, table.scan().plan, columns=["v"], **wanted).to_arrow()
        assert rows.num_columns == 2
        assert sum(rows.column("v").to_pylist()) == sum(model.values())
    assert set(merges) == {"merge_sorted_runs"}


def test_deletes_go_by_age_and_sequence_fields_do_not(tmp_path: Path, merges: list[str]) -> None:
    table, model = make(tmp_path)
    gone = sorted(model)[:700:7]
    table.delete(pa.table({"k": [k for k, _ in gone], "n": pa.array([n for _, n in gone], pa.int32())}))
    left = [v for key, v in model.items() if key not in gone]
    assert sorted(table.scan(columns=["v"]).to_arrow().column("v").to_pylist()) == sorted(left)
    assert set(merges) == {"merge_by_age"}
    merges.clear()
    ordered, _ = make(tmp_path / "ordered", {"sequence.field": "v"})
    assert ordered.scan(columns=["v"]).to_arrow().num_rows == len(model)
    assert set(merges) == {"merge_sorted_runs"}
