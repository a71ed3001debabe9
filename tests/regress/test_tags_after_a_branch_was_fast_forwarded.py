"""EARLIEST outlives the snapshots that a fast-forwarded branch replaces, and no snapshot of the branch could be tagged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import encode_hint
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import content, make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table whose newest snapshot is 2 again, while EARLIEST says 4."""
    made = make_table(tmp_path)
    for key in (1, 2):
        upsert(made, [(1, key, "before")])
    create_tag(made.metadata, "start")
    make_branch(Path(made.uri), "x", "start")
    for key in (3, 4, 5):
        upsert(made, [(1, key, "gone")])
    keep(made, 2)
    assert made.metadata.earliest_hint() == 4
    fast_forward(Path(made.uri), "x")
    return Table.open(made.uri)


def keep(table: Table, snapshots: int) -> None:
    retention = Retention(num_min=snapshots, num_max=snapshots, time_ms=0, limit=100)
    later = int(time.time() * 1000) + 86_400_000
    expire_table(table.metadata, table.schema, retention=retention, now_ms=later)


def test_its_snapshots_can_be_tagged(table: Table) -> None:
    create_tag(table.metadata, "mine", snapshot_id=2)
    assert content(table, tag="mine") == {(1, 1): "before", (1, 2): "before"}


def test_the_next_expiry_mends_the_hint(table: Table) -> None:
    keep(table, 10)
    assert table.metadata.earliest_hint() == 2


def test_a_hint_that_names_a_snapshot_counts(table: Table) -> None:
    """Another program is expiring what comes before it."""
    upsert(table, [(1, 3, "after")])
    table.store.put(table.paths.earliest, encode_hint(3))
    with pytest.raises(NotFoundError, match="while it was tagged"):
        create_tag(table.metadata, "late", snapshot_id=2)
    assert "late" not in table.metadata.tag_names()
