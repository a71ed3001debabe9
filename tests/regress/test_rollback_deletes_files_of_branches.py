"""A rollback deleted the files of branches; a tag made during an expiry kept nothing; a rollback left late snapshots."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

NEWEST_ONLY = Retention(num_min=1, num_max=1, time_ms=0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"snapshot.num-retained.min": "1"})
    for k in range(3):
        upsert(made, [(1, k, f"{k}")])
    return made


def branch_of(table: Table, name: str, snapshot_id: int) -> Table:
    """A branch from a snapshot as Java makes it: copies of its snapshot and of the schemas."""
    paths = TablePaths.of(table.uri, table.schema, branch=name)
    for source, copy in (
        (table.paths.snapshot_path(snapshot_id), paths.snapshot_path(snapshot_id)),
        (table.paths.schema_path(0), paths.schema_path(0)),
    ):
        Path(copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    return Table(table.store, paths)


def test_rollback_keeps_the_files_of_a_branch(table: Table) -> None:
    branch = branch_of(table, "b", 3)
    roll_back_table(table.metadata, table.schema, snapshot_id=1)
    assert content(table) == {(1, 0): "0"}
    assert content(branch) == {(1, 0): "0", (1, 1): "1", (1, 2): "2"}


def test_expiry_and_deleted_tags_keep_the_files_of_a_branch(table: Table) -> None:
    branch = branch_of(table, "b", 2)
    create_tag(table.metadata, "t", snapshot_id=2)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    expire_table(table.metadata, table.schema, now_ms=4_000_000_000_000, retention=NEWEST_ONLY)
    delete_tag(table.metadata, table.schema, "t")
    assert content(branch) == {(1, 0): "0", (1, 1): "1"}


@pytest.mark.slow
def test_a_tag_made_during_an_expiry_is_whole_or_refused(table: Table) -> None:
    run_compaction(table.metadata, LocalRunner(1), full=True)
    refused = kept = 0
    for skip in range(40):
        folder = Path(f"{Path(table.uri).parent.parent}-{skip}/d.db/t")
        shutil.copytree(table.uri, folder)
        store = FaultStore(Table.open(str(folder)).store)
        other = Table.open(str(folder))
        outcome: list[str] = []

        def tag(verb: str, path: str, other: Table = other, outcome: list[str] = outcome) -> None:
            try:
                create_tag(other.metadata, "t", snapshot_id=2)
                outcome.append("tagged")
            except NotFoundError:
                outcome.append("refused")

        store.fail(("put", "delete", "list", "get"), act=tag, skip=skip)
        expiring = Table(store, other.paths)
        expire_table(expiring.metadata, other.schema, now_ms=4_000_000_000_000, retention=NEWEST_ONLY)
        if outcome == ["tagged"]:
            kept += 1
            assert content(Table.open(str(folder)), tag="t") == {(1, 0): "0", (1, 1): "1"}, skip
        else:
            refused += 1
    assert kept
    assert refused


def test_a_snapshot_put_on_a_dropped_one_goes_with_it(table: Table) -> None:
    store = FaultStore(table.store)
    writer = Table.open(table.uri)
    copied = Path(table.paths.snapshot_path(3)).read_text()

    def put_late(verb: str, path: str) -> None:
        Path(writer.paths.snapshot_path(4)).write_text(copied.replace('"id" : 3', '"id" : 4'))

    fault = store.fail("delete", "snapshot-3", act=put_late)
    roll_back_table(Table(store, table.paths).metadata, table.schema, snapshot_id=1)
    assert fault.hits == 1
    assert Table.open(table.uri).metadata.snapshot_ids() == [1]
    upsert(Table.open(table.uri), [(1, 9, "new")])
    assert content(Table.open(table.uri)) == {(1, 0): "0", (1, 9): "new"}
