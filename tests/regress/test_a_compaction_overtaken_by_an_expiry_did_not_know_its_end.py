"""A compaction that moves files to another level adds none of its own, nor does one that gives them an index.

When its snapshot had expired before it looked again, nothing told whether that had been in the history, and the compaction failed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.format.data_file import DataFileMeta
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.view import decode_partition_dict, load_view
from lakeidx.testing.fault_store import FaultStore, When
from tests.kit.shared_table import calls
from tests.kit.small_tables import content, make_table, upsert

LATER = 4_000_000_000_000


def others(table: Table) -> None:
    """Rows of another partition, then all snapshots but the newest expire, and what was put on expired ids goes."""
    for number in range(3):
        upsert(Table.open(table.uri), [(2, number, "other")])
    for _ in range(2):
        retention = Retention(num_min=1, num_max=1, time_ms=0)
        expire_table(Table.open(table.uri).metadata, table.schema, now_ms=LATER, retention=retention)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """One file, which a full compaction only moves to the top level."""
    made = make_table(tmp_path)
    upsert(made, [(1, 1, "first")])
    return Table.open(made.uri)


def run(act: Callable[[Table], object], table: Table, when: When) -> Table:
    """Let others come in before or after its snapshot is put; gives the table as a new process sees it."""
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot-2", when=when, act=lambda *_: others(table), times=1)
    act(Table(store, table.paths))
    after = Table.open(table.uri)
    assert content(after) == EXPECTED
    return after


def first_file(table: Table) -> DataFileMeta:
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    (found,) = (e.file for e in view.entries if decode_partition_dict(e.partition, table.schema) == {"p": 1})
    return found


EXPECTED = {(1, 1): "first", **{(2, n): "other" for n in range(3)}}


@pytest.mark.parametrize("when", ["after", "before"])
def test_a_file_is_moved_whether_its_snapshot_was_in_the_history_or_not(table: Table, when: When) -> None:
    assert first_file(run(lambda t: calls.compact(t, True), table, when)).level == 5


@pytest.mark.parametrize("when", ["after", "before"])
def test_a_file_gets_its_index_whether_its_snapshot_was_in_the_history_or_not(table: Table, when: When) -> None:
    after = first_file(run(calls.index_files, table, when))
    assert after.embedded_index is not None or after.extra_files
