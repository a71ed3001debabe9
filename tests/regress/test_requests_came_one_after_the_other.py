"""What reads many small files of a store that waits asks for them side by side, and for each no oftener than it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.storage import LocalStore
from lakeidx.table import handle
from tests.kit.slow_store import SlowStore

pytestmark = pytest.mark.slow
PARTITIONS, KEYS, BATCHES = 20, 10, 4
FILES = PARTITIONS * BATCHES


def rows(value: str) -> pa.Table:
    numbers = range(PARTITIONS * KEYS)
    partitions = pa.array([n % PARTITIONS for n in numbers], pa.int32())
    return pa.table({"p": partitions, "k": [n // PARTITIONS for n in numbers], "v": [value] * len(numbers)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    spec = {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
    table = Table.create(str(tmp_path / "t"), spec)
    for number in range(BATCHES):
        table.upsert(rows(f"v{number}"))
    return table.uri


#: The call, the most requests it may cost, and how many of them are under way at once at least.
CALLS: dict[str, tuple[Callable[[Table], Any], int, int]] = {
    # Each data file for its pages and for its keys, its bucket's folder, its hash index.
    "verify": (Table.verify, 4 * FILES + 40, 10),
    "orphans": (Table.orphans, PARTITIONS + 40, 10),
    "advise": (Table.advise, 2 * FILES + 20, 10),
    "scan": (lambda table: table.scan().to_arrow(), FILES + 15, 10),
    "lookup": (lambda table: table.lookup(rows("").select(["p", "k"])), 2 * FILES + PARTITIONS + 15, 10),
    "compact": (lambda table: table.compact(full=True), 2 * FILES + PARTITIONS + 30, 10),
    # Snapshots go one after the other, the oldest first, so that no death leaves a gap.
    "expire": (lambda table: table.expire(retain_min=1, retain_max=1), 60, 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_requests_are_few_and_side_by_side(uri: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    call, most, at_once = CALLS[name]
    store = SlowStore(LocalStore(uri))
    monkeypatch.setattr(handle, "open_store", lambda *_: store)
    table = Table.open(uri)
    store.reset()
    call(table)
    assert store.total.requests <= most, store.counts
    assert store.at_once >= at_once, store.counts
