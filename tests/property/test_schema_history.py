"""Random histories of schema changes between batches and compactions: scans, filters and open lookups are what a model holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.schema_histories import SchemaHistory, write_by_lakeidx

_SEEDS = int(os.environ.get("LAKEIDX_EXAMPLES", "0")) or 5


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_schema_histories(tmp_path: Path, seed: int) -> None:
    history = SchemaHistory.begin(f"{tmp_path}/wh/d.db/t", seed)
    history.upsert(write_by_lakeidx)
    for _ in range(8):
        for step in history.chance.sample([history.alter, history.compact, lambda: None], 2):
            step()  # type: ignore[no-untyped-call]
            history.check()
        history.upsert(write_by_lakeidx)
        history.check()
    assert len(history.table.metadata.schema_ids()) > 3
