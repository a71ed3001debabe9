"""A rollback deleted the files of branches; a tag made during an expiry kept nothing; a rollback left late snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

NEWEST_ONLY = Retention(num_min=1, num_max=1, time_ms=0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"snapshot.num-retained.min": "1"})
    for k in range(3):
        upsert(made, [(1, k, f"{k}")])
    return made


def test_a_snapshot_put_on_a_dropped_one_goes_with_it(table: Table) -> None:
    store = FaultStore(table.store)
    writer = Table.open(table.uri)
    copied = Path(table.paths.snapshot_path(3)).read_text()

    def put_late(verb: str, path: str) -> None:
        Path(writer.paths.snapshot_path(4)).write_text(copied.replace('"id" : 3', '"id" : 4'))

    fault = store.fail("delete", "snapshot-3", act=put_late)
    roll_back_table(Table(store, table.paths).metadata, table.schema, snapshot_id=1)
    assert fault.hits == 1
    assert Table.open(table.uri).metadata.snapshot_ids() == [1]
    upsert(Table.open(table.uri), [(1, 9, "new")])
    assert content(Table.open(table.uri)) == {(1, 0): "0", (1, 9): "new"}
