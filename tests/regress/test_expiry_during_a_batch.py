"""A batch failed with 'no such file' when the snapshot that it was first assigned on, or was to follow, expired meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import NotFoundError
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"snapshot.num-retained.min": "1"})
    upsert(made, [(1, 1, "first")])
    return made


def write_and_expire(table: Table, partition: int = 1) -> None:
    other = Table.open(table.uri)
    upsert(other, [(partition, 2, "other")])
    retention = Retention(num_min=1, num_max=1, time_ms=0)
    expire_table(other.metadata, other.schema, now_ms=4_000_000_000_000, retention=retention)


@pytest.mark.slow
@pytest.mark.parametrize("call", range(3))
def test_it_is_assigned_on_the_newer_one(table: Table, call: int) -> None:
    store = FaultStore(table.store)
    fault = store.fail("get", "/manifest/", act=lambda *_: write_and_expire(table), skip=call)
    upsert(Table(store, table.paths), [(1, 1, "second"), (1, 3, "new")])
    assert fault.hits == 1
    assert content(table) == {(1, 1): "second", (1, 2): "other", (1, 3): "new"}


@pytest.mark.slow
@pytest.mark.parametrize("call", range(3))
def test_it_is_committed_on_the_newer_one(table: Table, call: int) -> None:
    """Other partitions were written, so the batch need not be planned again: its commit follows another snapshot."""
    store = FaultStore(table.store)
    expiries = []

    def another_commits(*_: str) -> None:
        # The manifests of the snapshot that the commit is to follow are read by the commit alone: what was read before is kept.
        upsert(Table.open(table.uri), [(3, 3, "meanwhile")])
        expiry = store.fail("get", "/manifest/", act=lambda *_: write_and_expire(table, 2), skip=call)
        expiries.append(expiry)

    store.fail("close_output", "/bucket-", act=another_commits)
    upsert(Table(store, table.paths), [(1, 1, "second"), (1, 3, "new")])
    assert [expiry.hits for expiry in expiries] == [1]
    assert content(table) == {(1, 1): "second", (2, 2): "other", (1, 3): "new", (3, 3): "meanwhile"}


def test_a_file_that_stays_away_is_an_error(table: Table) -> None:
    for manifest in Path(table.uri).glob("manifest/manifest-*"):
        manifest.unlink()
    with pytest.raises(NotFoundError, match="no such file"):
        upsert(Table.open(table.uri), [(1, 1, "second")])
