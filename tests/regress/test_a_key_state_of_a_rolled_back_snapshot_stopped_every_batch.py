"""A compaction was rolled back just before the key state followed it: the state kept no identity of the snapshot that was gone, and
as "none" equalled "none", every later batch was told that it had been planned before that snapshot.
"""

from __future__ import annotations

from pathlib import Path

from lakeidx.api.table import Table
from lakeidx.table.expiration.rollback import roll_back
from tests.kit.small_tables import content, make_table, upsert


def test_the_only_state_that_is_kept_was_rolled_back(tmp_path: Path) -> None:
    options = {"index.type": "inmemory", "index.global.enabled": "false", "index.state.keep-checkpoints": "1"}
    table = make_table(tmp_path, options=options)
    upsert(table, [(1, 1, "first")])
    upsert(table, [(1, 2, "gone")])
    roll_back(table.metadata, table.schema, snapshot_id=1)
    again = Table.open(table.uri)
    upsert(again, [(1, 1, "second"), (1, 2, "new")])
    assert content(again) == {(1, 1): "second", (1, 2): "new"}
