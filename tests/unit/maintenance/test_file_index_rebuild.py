"""Rebuilding file indexes group by group: what a fault, a death or another writer costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import CorruptFileError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import FileIndexRebuildReport, run_file_index_rebuild, spec_to_build
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.view import data_file_path, load_view
from lakeidx.tasks import groups
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, filled_table, upsert

pytestmark = pytest.mark.usefixtures("in_groups_of_two")
MODEL = {(p, 0): "a" for p in range(5)}


@pytest.fixture
def in_groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUP_ITEMS", 2)


def filled(folder: Path) -> Table:
    """Five partitions with a file each."""
    return filled_table(folder, [(p, 0, "a") for p in range(5)])


def rebuild(table: Table) -> FileIndexRebuildReport:
    spec = spec_to_build(table.schema, "bloom-filter", ["v"])
    return run_file_index_rebuild(table.metadata, LocalRunner(1), spec, sleep=lambda _: None)


def indexed(table: Table) -> dict[str, bool]:
    """Live data files, and whether they have an index."""
    fresh = Table.open(table.uri)
    entries = load_view(fresh.metadata, fresh.snapshot).entries
    return {
        data_file_path(fresh.metadata, e): bool(e.file.embedded_index or any("index" in n for n in e.file.extra_files))
        for e in entries
    }


def test_indexes_are_committed_in_groups(tmp_path: Path) -> None:
    table = filled(tmp_path)
    report = rebuild(table)
    assert (report.snapshot_ids, report.files, report.rewritten, report.rounds) == ((2, 3, 4), 5, 5, 1)
    assert list(indexed(table).values()) == [True] * 5
    assert content(Table.open(table.uri)) == MODEL


def test_a_damaged_file_costs_only_itself_and_is_named(tmp_path: Path) -> None:
    table = filled(tmp_path)
    victim = sorted(Path(table.uri).rglob("data-*.parquet"))[2]
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(CorruptFileError, match="1 of 5 files were not indexed anew, 4 were committed: ") as error:
        rebuild(table)
    assert str(victim) in str(error.value)
    assert indexed(table) == {path: path != str(victim) for path in indexed(table)}


@pytest.mark.slow
def test_files_that_came_meanwhile_get_their_index_and_replaced_ones_bring_nothing_back(tmp_path: Path) -> None:
    table = filled(tmp_path)
    store = FaultStore(table.store)

    def meanwhile(*_: str) -> None:
        there = Table.open(table.uri)
        upsert(there, [(p, 0, "b") for p in range(5)])
        run_compaction(Table.open(table.uri).metadata, LocalRunner(1), full=True)

    store.fail("put_if_absent", "snapshot-2", act=meanwhile)
    report = rebuild(Table(store, table.paths))
    assert report.rounds == 2
    assert list(indexed(table).values()) == [True] * 5
    assert content(Table.open(table.uri)) == dict.fromkeys(MODEL, "b")


def test_a_snapshot_of_the_same_id_after_a_rollback_is_another_one(tmp_path: Path) -> None:
    table = filled(tmp_path)
    upsert(table, [(p, 1, "gone") for p in range(5)])
    store = FaultStore(table.store)

    def meanwhile(*_: str) -> None:
        there = Table.open(table.uri)
        roll_back(there.metadata, there.schema, snapshot_id=1)
        upsert(Table.open(table.uri), [(p, 2, "b") for p in range(5)])

    store.fail("open_input", "data-", act=meanwhile)
    assert rebuild(Table(store, table.paths)).files == 10
    assert list(indexed(table).values()) == [True] * 10
    assert content(Table.open(table.uri)) == MODEL | {(p, 2): "b" for p in range(5)}
