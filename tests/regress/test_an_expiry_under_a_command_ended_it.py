"""A command that looked at a snapshot while that expired ended in "manifest-list-…: no such file", or "buckets were not compacted".

Who asks for the newest state gets the one that took its place; a scan that has given rows says what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import NotFoundError
from lakeidx.testing.fault_store import Fault, FaultStore
from tests.kit.shared_table import calls
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.slow

KEY = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([2], pa.int64())})
EXPECTED = {(1, 1): "new", (1, 2): "b", (2, 1): "c", (2, 9): "other"}
#: Verb and part of the path of the call at which others come in: the snapshot's lists are read, then its files.
MOMENTS: list[tuple[tuple[str, ...], str]] = [
    (("get",), "/manifest-list-"), (("get",), "/index-manifest-"), (("open_input", "get_range", "get_ranges"), "/data-"),
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two partitions; the first bucket has three files."""
    made = make_table(tmp_path, options={"num-sorted-run.compaction-trigger": "2"})
    upsert(made, [(1, 1, "a"), (1, 2, "b"), (2, 1, "c")])
    for text in ("old", "new"):
        upsert(made, [(1, 1, text)])
    return Table.open(made.uri)


def others(uri: str) -> None:
    """Write, compact every bucket, and expire all snapshots but the newest."""
    upsert(Table.open(uri), [(2, 9, "other")])
    calls.compact(Table.open(uri), True)
    upsert(Table.open(uri), [(2, 9, "other")])
    for _ in range(2):
        calls.expire(Table.open(uri), 1)


def overtaken(
    table: Table, moment: tuple[tuple[str, ...], str], act: Callable[[Table], object]
) -> tuple[object, Fault]:
    """What a program gets while others come in once."""
    store = FaultStore(table.store)
    fault = store.fail(*moment, act=lambda *_: others(table.uri), times=1)
    seen = Table.__new__(Table)
    Table.__init__(seen, store, table.paths)
    return act(seen), fault


MAINTENANCE: list[Callable[[Table], object]] = [
    lambda t: t.compact(),
    lambda t: t.compact(full=True),
    lambda t: t.compact(full=True, partitions=["p=1"]),
    lambda t: calls.index_files(t),
    lambda t: t.build_lookup_store(),
    lambda t: t.verify(),
    lambda t: t.files(),
    lambda t: t.buckets(),
    lambda t: t.index_files(),
]
#: From here on they are lists.
LISTS = 6


@pytest.mark.parametrize("act", range(len(MAINTENANCE)))
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m[1])
def test_maintenance_goes_on_with_the_newest_state(table: Table, moment: tuple[tuple[str, ...], str], act: int) -> None:
    _, fault = overtaken(table, moment, MAINTENANCE[act])
    # Lists of files and buckets read no data file.
    assert fault.hits or (act >= LISTS and moment == MOMENTS[2])
    assert content(Table.open(table.uri)) == {k: v for k, v in EXPECTED.items() if fault.hits or v != "other"}


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m[1])
def test_lookups_and_deletes_find_the_row(table: Table, moment: tuple[tuple[str, ...], str]) -> None:
    found, fault = overtaken(table, moment, lambda t: t.lookup(KEY))
    assert fault.hits
    assert isinstance(found, pa.Table)
    assert found.column("v").to_pylist() == ["b"]
    overtaken(table, moment, lambda t: t.delete(where="v = 'b'"))
    overtaken(table, moment, lambda t: t.delete(pa.table({"p": KEY["p"], "k": pa.array([1], pa.int64())})))
    assert content(Table.open(table.uri)) == {k: v for k, v in EXPECTED.items() if k[0] == 2}


@pytest.mark.parametrize("moment", MOMENTS[:2], ids=lambda m: m[1])
def test_a_scan_is_planned_on_the_newest_state(table: Table, moment: tuple[tuple[str, ...], str]) -> None:
    found, fault = overtaken(table, moment, lambda t: t.scan().to_arrow().num_rows)
    assert fault.hits
    assert found == len(EXPECTED)


def test_a_scan_says_that_its_snapshot_has_expired(table: Table) -> None:
    """Its rows may have been used already."""
    with pytest.raises(
        NotFoundError,
        match=r"snapshot 3 of .*Z expired while it was read \(.* is gone\); snapshots 6 to 6 exist, the oldest of .*Z: read again",
    ):
        overtaken(table, MOMENTS[2], lambda t: t.scan().to_arrow())


def test_who_names_a_snapshot_wants_that_one(table: Table) -> None:
    with pytest.raises(NotFoundError, match=r"snapshot 1 of .*Z expired while it was read"):
        overtaken(table, MOMENTS[0], lambda t: t.scan(snapshot=1).to_arrow())


DAMAGED: list[Callable[[Table], object]] = [
    lambda t: t.scan().to_arrow(),
    lambda t: t.scan(tag="kept").to_arrow(),
    lambda t: t.compact(full=True),
]


def test_a_file_that_is_missing_otherwise_is_named(table: Table) -> None:
    """Nothing has expired: the table is damaged. A tag keeps what has expired."""
    calls.tag(table, "kept", 2)
    upsert(table, [(2, 9, "other")])
    calls.expire(table, 1)
    for lost in [f.path for f in table.store.walk(table.uri) if "/p=1/" in f.path and "/data-" in f.path]:
        table.store.delete(lost)
    for act in DAMAGED:
        with pytest.raises(NotFoundError, match="no such file"):
            act(Table.open(table.uri))
