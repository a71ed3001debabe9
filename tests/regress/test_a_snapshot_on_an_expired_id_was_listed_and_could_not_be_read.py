"""Two processes ran one batch: one committed it, its snapshot expired, and the other, held up, put the same changes on that id. The
next snapshot held them, so what was put stayed, and could not be read: the expiry had removed what both had taken over from the
snapshot before, or what the next one replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

#: Of a key that is known: the index manifest is that of the snapshot before.
BATCH = [(1, 1, "second")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"snapshot.num-retained.min": "1"})
    upsert(made, [(1, 1, "first")])
    return made


def new_key(table: Table) -> None:
    upsert(table, [(1, 2, "other")])


def compact(table: Table) -> None:
    run_compaction(table.metadata, LocalRunner(1), full=True)


def run_elsewhere(table: Table, then: Callable[[Table], None]) -> Callable[..., None]:
    """Another process runs the batch, others go on, and all but the newest snapshot expires."""

    def act(*_: object) -> None:
        other = Table.open(table.uri)
        upsert(other, BATCH, batch_id="b")
        then(other)
        expire(other)

    return act


def expire(table: Table) -> None:
    retention = Retention(num_min=1, num_max=1, time_ms=0)
    expire_table(table.metadata, table.schema, now_ms=4_000_000_000_000, retention=retention)


def check(uri: str, newest: int) -> None:
    table = Table.open(uri)
    assert table.metadata.latest_hint() == newest
    for snapshot_id in table.metadata.listed_snapshot_ids():
        content(table, snapshot=snapshot_id)
        table.metadata.load_index_manifest(table.metadata.load_snapshot(snapshot_id).index_manifest)
    assert content(table)[(1, 1)] == "second"


@pytest.mark.parametrize("then", [new_key, compact])
def test_what_is_listed_can_be_read(table: Table, then: Callable[[Table], None]) -> None:
    store = FaultStore(table.store)
    fault = store.fail("put_if_absent", "/snapshot/", act=run_elsewhere(table, then))
    result = upsert(Table(store, table.paths), BATCH, batch_id="b")
    assert fault.hits == 1
    assert result.commit.snapshot_ids == (2,)
    check(table.uri, 3)


@pytest.mark.parametrize("then", [new_key, compact])
def test_the_next_expiry_takes_it_away_when_its_writer_died_before_it_looked(
    table: Table, then: Callable[[Table], None]
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", act=run_elsewhere(table, then))
    store.fail("put_if_absent", "/snapshot/", when="after", act=die)
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), BATCH, batch_id="b")
    assert upsert(Table.open(table.uri), BATCH, batch_id="b").already
    expire(Table.open(table.uri))
    check(table.uri, 3)
