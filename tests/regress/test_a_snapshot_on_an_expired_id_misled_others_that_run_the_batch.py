"""A snapshot that was put on an expired id is taken away by its writer, or by another process that runs the same batch. In between:

- the other one saw it, and when it looked again it was gone: it took that for "expired in its turn", and the batch for committed;
- the writer, when the other one had been faster to take it away, did so, too;
- its files counted as those of a state that is read, so as committed;
- a batch that comes again found the id of its expired snapshot to be another commit's, which a compaction had left there, and
  took that for a rollback: it was run anew, and its rows were added a second time;
- two of them, one after the other, were taken for the history, the first one was named as the newest, and others went on from it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.upsert import commit_batch, make_context
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import LISTAGG, content, make_table, upsert

OPTIONS = {**LISTAGG, "snapshot.num-retained.min": "1", "manifest.merge-min-count": "2"}
ROWS = [(1, 1, "second"), (1, 3, "new")]
EXPECTED = {(1, 1): "first,second", (1, 3): "new", (2, 0): "other", (2, 1): "other", (2, 2): "other"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options=OPTIONS)
    upsert(made, [(1, 1, "first")])
    return made


def go_on(table: Table) -> None:
    """Have others write snapshots, and let all but the newest expire."""
    other = Table.open(table.uri)
    for number in range(3):
        upsert(other, [(2, number, "other")])
    retention = Retention(num_min=1, num_max=1, time_ms=0)
    expire_table(other.metadata, other.schema, now_ms=4_000_000_000_000, retention=retention)


def overtaken(table: Table) -> FaultStore:
    """The store of a process that is overtaken before it puts snapshot 2, so that it puts it on an expired id."""
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot-2", act=lambda *_: go_on(table), times=1)
    return store


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def take_away(table: Table) -> Callable[..., None]:
    return lambda *_: table.store.delete(table.metadata.paths.snapshot_path(2))


def test_the_writer_does_not_find_what_another_process_has_taken_away(table: Table) -> None:
    store = overtaken(table)
    gone = store.fail("put_if_absent", "/snapshot-2", when="after", act=take_away(table), times=1)
    upsert(Table(store, table.paths), ROWS, batch_id="b")
    assert gone.hits == 1
    assert content(Table.open(table.uri)) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("comes_at", range(1, 13))
def test_another_process_sees_it_come_and_go(table: Table, comes_at: int) -> None:
    """Whenever the snapshot comes while the other process looks for one of the batch, and goes when it looks again."""
    path = table.metadata.paths.snapshot_path(2)
    store = overtaken(table)
    store.fail("put_if_absent", "/snapshot-2", when="after", act=killed, times=1)
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), ROWS, batch_id="b")
    stray = table.store.get(path)
    table.store.delete(path)
    second = FaultStore(table.store)
    second.fail(("list", "get"), "/snapshot", act=lambda *_: table.store.put(path, stray), skip=comes_at, times=1)
    second.fail("exists", "/snapshot-2", act=take_away(table), times=1)
    context = make_context(Table(second, table.paths).metadata, "b")
    commit_batch(context, sleep=lambda _: None)
    table.store.delete(path)
    assert content(Table.open(table.uri)) == EXPECTED
