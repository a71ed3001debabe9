"""A batch died while it committed, and was run again when its snapshot had expired and its files were compacted: since a tag, or a
branch, kept the files, they were taken for files that nobody had committed yet, and the rows were added a second time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table.foreign import make_branch
from tests.kit.small_tables import LISTAGG, content, make_table, upsert


@pytest.mark.parametrize("kept_by", ["tag", "branch"])
def test_rows_are_there_once(tmp_path: Path, kept_by: str) -> None:
    table = make_table(tmp_path, options=LISTAGG)
    upsert(table, [(1, 1, "first")])
    store = FaultStore(table.store)

    def die(*_: object) -> None:
        other = Table.open(table.uri)
        create_tag(other.metadata, "kept", snapshot_id=2)
        if kept_by == "branch":
            make_branch(Path(table.uri), "x", "kept")
        run_compaction(other.metadata, LocalRunner(1), full=True)
        upsert(other, [(1, 2, "other")])
        retention = Retention(num_min=1, num_max=1, time_ms=0)
        expire_table(other.metadata, other.schema, now_ms=4_000_000_000_000, retention=retention)
        if kept_by == "branch":
            delete_tag(other.metadata, other.schema, "kept")
        raise KeyboardInterrupt

    store.fail("put_if_absent", "/snapshot/", when="after", act=die)
    rows = [(1, 1, "second"), (1, 3, "new")]
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), rows, batch_id="b")
    assert table.metadata.snapshot_ids() == [4]
    upsert(Table.open(table.uri), rows, batch_id="b")
    found = content(Table.open(table.uri))
    assert found == {(1, 1): "first,second", (1, 2): "other", (1, 3): "new"}
