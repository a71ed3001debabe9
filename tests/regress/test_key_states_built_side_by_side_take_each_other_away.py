"""A writer that built a key state failed ("the table was dropped") when another one put a newer state meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.key_state import index
from lakeidx.batch.key_state.load import run_load
from tests.kit.small_tables import content, make_table, upsert


def test_a_state_that_a_newer_one_takes_away_is_a_conflict_and_the_batch_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, options={"index.type": "state", "commit.min-retry-wait": "1 ms"})
    upsert(table, [(1, k, "a") for k in range(6)])
    (folder,) = tmp_path.rglob("_index/state")
    shutil.rmtree(folder)
    others = iter([lambda: upsert(Table.open(table.uri), [(1, k, "b") for k in range(4, 9)])])

    def slow(*given: Any) -> Any:
        stored = run_load(*given)
        # Whoever builds first is overtaken by a whole batch of another program.
        next(others, lambda: None)()
        return stored

    monkeypatch.setattr(index, "run_load", slow)
    upsert(Table.open(table.uri), [(2, k, "c") for k in range(2, 5)])
    # A key lives in one partition at a time: the last batch moves three.
    kept = {(1, k): "a" for k in range(2)} | {(1, k): "b" for k in range(5, 9)} | {(2, k): "c" for k in range(2, 5)}
    assert content(Table.open(table.uri)) == kept
