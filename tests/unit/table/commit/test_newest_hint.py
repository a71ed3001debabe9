"""Tests of the hint LATEST: what is put, by whom, and with how many requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.table.commit.commit_changes import put_newest_hint, renew_passed_hint
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots 2 and 3; 1 is gone."""
    made = make_table(tmp_path)
    for number in range(3):
        upsert(made, [(1, number, "row")])
    made.store.delete(made.paths.snapshot_path(1))
    return Table.open(made.uri)


def test_a_snapshot_that_is_there_is_named_as_asked(table: Table) -> None:
    store = FaultStore(table.store)
    metadata = Table(store, table.paths).metadata
    store.calls.clear()
    put_newest_hint(metadata, 2)
    assert table.metadata.latest_hint() == 2
    assert [verb for verb, _ in store.calls] == ["put", "exists"]


def test_in_place_of_one_that_is_gone_the_newest_is_named(table: Table) -> None:
    put_newest_hint(table.metadata, 1)
    assert table.metadata.latest_hint() == 3


def test_the_newest_may_go_meanwhile(table: Table) -> None:
    """A rollback takes snapshot 3 when it has been listed."""
    store = FaultStore(table.store)
    store.fail("put", "/LATEST", when="after", act=lambda *_: table.store.delete(table.paths.snapshot_path(3)), times=2)
    put_newest_hint(Table(store, table.paths).metadata, 1)
    assert table.metadata.latest_hint() == 2


def test_no_snapshot_at_all_ends_too(table: Table) -> None:
    for number in (2, 3):
        table.store.delete(table.paths.snapshot_path(number))
    put_newest_hint(table.metadata, 2)
    assert table.metadata.latest_hint() == 2


@pytest.mark.parametrize(("hint", "after"), [(b"1", 3), (b"2", 2), (b"3", 3), (None, None)])
def test_an_expiry_renews_what_names_an_expired_one(table: Table, hint: bytes | None, after: int | None) -> None:
    table.store.delete(table.paths.latest)
    if hint is not None:
        table.store.put(table.paths.latest, hint)
    renew_passed_hint(table.metadata, 2)
    assert table.metadata.latest_hint() == after
