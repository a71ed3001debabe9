"""Sections of overlapping runs: what comes into the merge, and what a dictionary has of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.table.scan import section_read
from lakeidx.table.scan.table_scan import TableScan
from tests.kit.small_tables import table_spec

SPEC = table_spec(
    "k BIGINT, n INT, v INT, t STRING", ["k", "n"], options={"bucket": "2", "num-sorted-run.compaction-trigger": "100"}
)


def make(folder: Path, options: dict[str, str] | None = None) -> tuple[Table, dict[tuple[int, int], int]]:
    """A first batch of many keys and three of some of them; and what a dictionary has of them."""
    table = Table.create(f"{folder}/d.db/t", {**SPEC, "options": {**SPEC["options"], **(options or {})}})
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
def merged_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that came into merges, one number per run."""
    found: list[int] = []

    def merge(runs: Any, *args: Any, **more: Any) -> Any:
        tables = [list(run) for run in runs]
        found.extend(sum(t.num_rows for t in run) for run in tables)
        return merge_sorted_runs(tables, *args, **more)

    monkeypatch.setattr(section_read, "merge_sorted_runs", merge)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, ["v"], ["t"], ["n", "t"], []])
@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}])
def test_runs_are_merged(tmp_path: Path, columns: list[str] | None, options: dict[str, str]) -> None:
    table, model = make(tmp_path, options)
    tables = list(table.scan(columns=columns).batches())
    assert sum(t.num_rows for t in tables) == len(model)
    values = sorted(model.values())
    for name, expected in (("v", values), ("t", sorted(f"text {v}" for v in values))):
        if columns is None or name in columns:
            assert sorted(v for t in tables for v in t.column(name).to_pylist()) == expected


def test_conditions_on_keys_spare_rows_before_the_merge(tmp_path: Path, merged_rows: list[int]) -> None:
    table, model = make(tmp_path)
    selected = {key: v for key, v in model.items() if key[0] < 40}
    found = table.scan(where="k < 40 AND v >= 0", columns=["v"]).to_arrow()
    assert sorted(found.column("v").to_pylist()) == sorted(selected.values())
    assert len(selected) <= sum(merged_rows) <= 4 * len(selected)
    merged_rows.clear()
    # A condition on another column would bring back an older row of the key.
    assert table.scan(where="v < 500").to_arrow().num_rows == sum(v < 500 for v in model.values())
    assert sum(merged_rows) == 6000 + 3 * 500


def test_who_wants_system_columns_gets_them(tmp_path: Path) -> None:
    table, model = make(tmp_path)
    for wanted in ({"keep_sequence": True}, {"keep_deletes": True}):
        rows = TableScan(table.metadata, table.scan().plan, columns=["v"], **wanted).to_arrow()
        assert rows.num_columns == 2
        assert sum(rows.column("v").to_pylist()) == sum(model.values())
