"""A compaction was rolled back just before the key state followed it: the state kept no identity of the snapshot that was gone, and
as "none" equalled "none", every later batch was told that it had been planned before that snapshot.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert


@pytest.mark.parametrize("call", range(8))
def test_the_next_batch_builds_the_state_anew(tmp_path: Path, call: int) -> None:
    table = make_table(tmp_path, options={"index.type": "inmemory", "index.global.enabled": "false"})
    upsert(table, [(1, 1, "first")])
    store = FaultStore(table.store)

    def another_rolls_back(*_: object) -> None:
        other = Table.open(table.uri)
        roll_back(other.metadata, other.schema, snapshot_id=1)

    def is_read_to_follow(path: str) -> bool:
        return table.metadata.has_snapshot(2)

    fault = store.fail((), is_read_to_follow, act=another_rolls_back, skip=call)
    run_compaction(Table(store, table.paths).metadata, LocalRunner(1), full=True)
    assert fault.hits == 1
    again = Table.open(table.uri)
    assert again.metadata.snapshot_ids() == [1]
    upsert(again, [(1, 1, "second"), (1, 2, "new")])
    assert content(again) == {(1, 1): "second", (1, 2): "new"}


def test_the_only_state_that_is_kept_was_rolled_back(tmp_path: Path) -> None:
    options = {"index.type": "inmemory", "index.global.enabled": "false", "index.state.keep-checkpoints": "1"}
    table = make_table(tmp_path, options=options)
    upsert(table, [(1, 1, "first")])
    upsert(table, [(1, 2, "gone")])
    roll_back(table.metadata, table.schema, snapshot_id=1)
    again = Table.open(table.uri)
    upsert(again, [(1, 1, "second"), (1, 2, "new")])
    assert content(again) == {(1, 1): "second", (1, 2): "new"}
