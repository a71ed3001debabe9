"""A batch was acknowledged, and none of its rows were in the table: while it was committed as snapshot 2, others wrote 2 and 3 and
let 1 and 2 expire, so the put succeeded on a free name, and snapshot 3 looked like its successor.

Its sibling: a batch was committed twice when its own snapshot and the next one expired before it looked at what it had put.
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
from lakeidx.testing.fault_store import FaultStore, When
from tests.kit.small_tables import LISTAGG, content, make_table, upsert

pytestmark = pytest.mark.slow

OPTIONS = {**LISTAGG, "snapshot.num-retained.min": "1", "manifest.merge-min-count": "2"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options=OPTIONS)
    upsert(made, [(1, 1, "first")])
    return made


def write_and_expire(table: Table, batches: int) -> Callable[..., None]:
    def act(*_: object) -> None:
        other = Table.open(table.uri)
        for number in range(batches):
            upsert(other, [(2, number, "other")])
        retention = Retention(num_min=1, num_max=1, time_ms=0)
        expire_table(other.metadata, other.schema, now_ms=4_000_000_000_000, retention=retention)

    return act


def expected(batches: int) -> dict[tuple[int, int], str]:
    return {(1, 1): "first,second", (1, 3): "new"} | {(2, number): "other" for number in range(batches)}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_rows_are_there_once(table: Table, batches: int, when: When) -> None:
    store = FaultStore(table.store)
    fault = store.fail("put_if_absent", "/snapshot/", when=when, act=write_and_expire(table, batches))
    upsert(Table(store, table.paths), [(1, 1, "second"), (1, 3, "new")], batch_id="b")
    assert fault.hits == 1
    assert content(Table.open(table.uri)) == expected(batches)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_rows_are_there_once_when_the_writer_died_before_it_looked(table: Table, batches: int, when: When) -> None:
    store = FaultStore(table.store)
    others = write_and_expire(table, batches)

    def die(*_: object) -> None:
        if when == "after":
            others()
        raise KeyboardInterrupt

    if when == "before":
        store.fail("put_if_absent", "/snapshot/", act=others)
    store.fail("put_if_absent", "/snapshot/", when="after", act=die)
    rows = [(1, 1, "second"), (1, 3, "new")]
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), rows, batch_id="b")
    upsert(Table.open(table.uri), rows, batch_id="b")
    again = Table.open(table.uri)
    assert content(again) == expected(batches)
    ids = again.metadata.snapshot_ids()
    assert ids == list(range(ids[0], ids[0] + len(ids)))


def test_a_put_that_was_done_and_not_answered_is_looked_at_too(table: Table) -> None:
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", act=write_and_expire(table, 2))
    store.fail("put_if_absent", "/snapshot/", when="after")
    upsert(Table(store, table.paths), [(1, 1, "second"), (1, 3, "new")], batch_id="b")
    assert content(Table.open(table.uri)) == expected(2)


def test_the_first_batch_of_a_table_is_looked_at_too(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=OPTIONS)
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", act=write_and_expire(table, 2))
    upsert(Table(store, table.paths), [(1, 1, "first")], batch_id="b")
    assert content(Table.open(table.uri)) == {(1, 1): "first", (2, 0): "other", (2, 1): "other"}


@pytest.mark.parametrize("planned_again", [False, True])
@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_a_batch_that_two_processes_run_is_there_once(table: Table, batches: int, planned_again: bool) -> None:
    store = FaultStore(table.store)
    rows = [(1, 1, "second"), (1, 3, "new")]
    others = [(1, 9, "other")] if planned_again else []

    def another_runs_it(*_: object) -> None:
        if others:
            upsert(Table.open(table.uri), others)
        result = upsert(Table.open(table.uri), rows, batch_id="b")
        assert result.commit.replans == len(others)
        run_compaction(Table.open(table.uri).metadata, LocalRunner(1), full=True)
        write_and_expire(table, batches)()

    store.fail("put_if_absent", "/snapshot/", act=another_runs_it)
    result = upsert(Table(store, table.paths), rows, batch_id="b")
    assert content(Table.open(table.uri)) == expected(batches) | {(p, k): v for p, k, v in others}
    assert result.already or not planned_again
