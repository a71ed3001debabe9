"""A batch was acknowledged, and none of its rows were in the table: while it was committed as snapshot 2, others wrote 2 and 3 and
let 1 and 2 expire, so the put succeeded on a free name, and snapshot 3 looked like its successor.

Its sibling: a batch was committed twice when its own snapshot and the next one expired before it looked at what it had put.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.testing.fault_store import FaultStore
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


def test_a_put_that_was_done_and_not_answered_is_looked_at_too(table: Table) -> None:
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", act=write_and_expire(table, 2))
    store.fail("put_if_absent", "/snapshot/", when="after")
    upsert(Table(store, table.paths), [(1, 1, "second"), (1, 3, "new")], batch_id="b")
    assert content(Table.open(table.uri)) == expected(2)
