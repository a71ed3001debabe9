"""A handle that stayed open over a rollback, or over a drop and re-creation, answered old rows and damaged the table."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import NotFoundError, TableReplacedError
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_orphans
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import SPEC, content, make_table, rows, upsert


def other_process(table: Table) -> Table:
    """The table as another process holds it."""
    return Table.open(table.uri)


def roll_back(table: Table, snapshot_id: int) -> None:
    """Roll back as the command line does: in a process of its own."""
    other = other_process(table)
    roll_back_table(other.metadata, other.schema, snapshot_id=snapshot_id)


@pytest.fixture(params=["dynamic", "fixed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={} if request.param == "dynamic" else {"bucket": "2"})
    upsert(made, [(1, 1, "one")])
    upsert(made, [(1, 2, "two, rolled back")])
    return made


@pytest.mark.slow
def test_scan_and_time_travel_after_a_rollback(table: Table) -> None:
    assert len(content(table, snapshot=2)) == 2
    roll_back(table, 1)
    assert content(table) == {(1, 1): "one"}
    with pytest.raises(NotFoundError, match="snapshot 2 does not exist"):
        content(table, snapshot=2)
    upsert(other_process(table), [(1, 3, "three")])
    assert content(table, snapshot=2) == content(table) == {(1, 1): "one", (1, 3): "three"}


@pytest.mark.slow
@pytest.mark.parametrize("lookup_files", [True, False])
def test_lookup_answers_the_new_state(table: Table, lookup_files: bool) -> None:
    if lookup_files:
        run_lookup_store(table.metadata, LocalRunner(1))
    lookup = TableLookup(table.metadata)
    keys = rows([(1, 2, None), (1, 3, None)]).select(["p", "k"])
    assert lookup.lookup(keys).found.tolist() == [True, False]
    roll_back(table, 1)
    upsert(other_process(table), [(1, 3, "three")])
    answer = lookup.lookup(keys)
    assert answer.found.tolist() == [False, True]
    assert answer.rows.column("v").to_pylist() == [None, "three"]


def replace_table(table: Table) -> Table:
    """Drop the table as SQL engines do, and create it again."""
    shutil.rmtree(table.uri)
    return Table.create(table.uri, {**SPEC, "comment": "again"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.scan().to_arrow(),
        lambda t: t.scan(snapshot=1).to_arrow(),
        lambda t: t.schema,
        lambda t: t.snapshot,
        lambda t: upsert(t, [(1, 4, "four")]),
        lambda t: commit_changes(t.metadata, CommitRequest(commit_user="u", changes=TableChanges())),
        lambda t: clean_orphans(t.metadata, now_ms=4_000_000_000_000, older_than_ms=0, dry_run=False),
    ],
    ids=["scan", "time travel", "schema", "snapshot", "upsert", "commit", "clean"],
)
@pytest.mark.parametrize("written", [True, False])
def test_a_handle_of_a_dropped_table_stops(tmp_path: Path, use: Callable[[Table], object], written: bool) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "one")])
    if not written:
        content(table)
    new = replace_table(table)
    if written:
        upsert(new, [(1, 9, "new")])
    files = sorted(p for p in Path(table.uri).rglob("*") if p.is_file())
    with pytest.raises(TableReplacedError, match="open it again"):
        use(table)
    assert sorted(p for p in Path(table.uri).rglob("*") if p.is_file()) == files
    assert content(Table.open(table.uri)) == ({(1, 9): "new"} if written else {})
    assert content(Table(table.store, table.paths)) == ({(1, 9): "new"} if written else {})


def test_a_handle_that_travels_to_a_task_keeps_its_table(table: Table) -> None:
    content(table)
    metadata = pickle.loads(pickle.dumps(table.metadata))
    replace_table(table)
    with pytest.raises(TableReplacedError):
        metadata.latest_schema()
    assert metadata.reopened().latest_schema().comment == "again"


def test_a_dropped_table_is_not_taken_for_a_wrong_path(table: Table) -> None:
    content(table)
    shutil.rmtree(table.uri)
    with pytest.raises(TableReplacedError, match="was dropped"):
        table.scan()
    with pytest.raises(NotFoundError, match="not a Paimon table"):
        Table.open(table.uri)


def test_a_lookup_over_a_dropped_table_stops(table: Table) -> None:
    lookup = TableLookup(table.metadata)
    keys = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([1], pa.int64())})
    assert lookup.lookup(keys).found.tolist() == [True]
    upsert(replace_table(table), [(1, 2, "new")])
    with pytest.raises(TableReplacedError):
        lookup.lookup(keys)
