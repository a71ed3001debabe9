"""Branches: each has rows, batches and expiry of its own; the files of one are never deleted by another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.sql.query import QueryResult
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.errors import CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.testing.fault_store import FaultStore, When

SPEC: dict[str, Any] = {
    "fields": [{"id": 0, "name": "id", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "1"},
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(tmp_path / "d.db" / "t", SPEC)
    made.upsert([{"id": 1, "v": "a"}], batch_id="first")
    return made


def rows(table: Table) -> dict[int, str]:
    return {r["id"]: r["v"] for r in table.scan().to_arrow().to_pylist()}


def test_a_branch_has_rows_and_batches_of_its_own(table: Table) -> None:
    table.create_branch("b", snapshot=1)
    branch = Table.open(table.uri, branch="b")
    branch.upsert([{"id": 1, "v": "b"}], batch_id="same")
    table.upsert([{"id": 1, "v": "m"}], batch_id="same")
    assert (rows(table), rows(branch)) == ({1: "m"}, {1: "b"})
    assert rows(Table.open(f"{table.uri}$branch_b")) == rows(table.branch("b")) == {1: "b"}
    found = Warehouse(Path(table.uri).parent.parent).sql("SELECT v FROM d.`t$branch_b`")
    assert isinstance(found, QueryResult)
    assert found.to_arrow().column(0).to_pylist() == ["b"]
    with pytest.raises(NotFoundError, match="branches: b"):
        Table.open(table.uri, branch="c")
    with pytest.raises(InvalidInputError, match="exists already"):
        table.create_branch("b")


def test_upkeep_of_one_leaves_the_files_of_the_other(table: Table) -> None:
    table.create_branch("b", snapshot=1)
    branch = table.branch("b")
    for step in range(3):
        table.upsert([{"id": 1, "v": f"m{step}"}])
        branch.upsert([{"id": 1, "v": f"b{step}"}])
    for one in (table, branch):
        one.compact(full=True)
        one.expire(retain_min=1, retain_max=1, retain_time="0 s", staging_age="0 s")
        one.orphans(older_than="0 s", remove=True)
    assert (rows(table), rows(branch)) == ({1: "m2"}, {1: "b2"})
    assert branch.scan(tag="branch_b").to_arrow().to_pylist() == [{"id": 1, "v": "a"}]
    assert table.verify().passed
    assert branch.verify().passed


@pytest.mark.parametrize("expired", [False, True])
def test_a_fast_forward_brings_all_and_loses_nothing(table: Table, expired: bool) -> None:
    table.create_branch("b", snapshot=1)
    branch = table.branch("b")
    branch.alter(add={"w": "INT"})
    for step in range(3):
        branch.upsert([{"id": 2 + step, "v": "b", "w": step}])
    if expired:
        branch.expire(retain_min=1, retain_max=1, retain_time="0 s")
    assert table.fast_forward("b", dry_run=True).dry_run
    assert rows(table) == {1: "a"}
    table.fast_forward("b")
    assert rows(Table.open(table.uri)) == {1: "a", 2: "b", 3: "b", 4: "b"}
    table = Table.open(table.uri)
    assert not table.fast_forward("b").snapshots
    table.upsert([{"id": 9, "v": "m", "w": 0}])
    with pytest.raises(CommitConflictError, match="lacks"):
        table.fast_forward("b")
    assert 9 in rows(table)
    # What is before the gap that the branch's expiry has left is no longer part of the history, and nothing else is wrong.
    assert [s["id"] for s in table.snapshots()] == ([4, 5] if expired else [1, 2, 3, 4, 5])
    assert table.verify().passed
    table.expire(retain_min=1, retain_max=1, retain_time="0 s")
    assert Path(table.paths.snapshot_dir, "snapshot-1").exists() is False
    assert rows(Table.open(table.uri)) == {1: "a", 2: "b", 3: "b", 4: "b", 9: "m"}


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fast_forward_that_dies_is_finished_by_the_next(
    table: Table, tmp_path: Path, when: When, expired: bool
) -> None:
    table.create_branch("b", snapshot=1)
    branch = table.branch("b")
    branch.alter(add={"w": "INT"})
    states = [rows(branch)]
    for step in range(3):
        branch.upsert([{"id": 2 + step, "v": "b", "w": step}])
        states.append(rows(branch))
    branch.create_tag("end")
    if expired:
        branch.expire(retain_min=1, retain_max=1, retain_time="0 s")
        states = [states[0], states[-1]]

    def die(verb: str, path: str) -> None:
        raise Died

    writes = ("put", "put_if_absent", "delete")
    for point in range(100):
        folder = tmp_path / f"{point}"
        shutil.copytree(Path(table.uri), folder / "t")
        dying = Table.open(folder / "t")
        store = FaultStore(dying.store)
        store.fail(writes, act=die, when=when, skip=point)
        try:
            Table(store, dying.paths).fast_forward("b")
            break
        except Died:
            pass
        # Readers see the table as it was, or as the branch was after one of its commits; nothing in between.
        seen = rows(Table.open(folder / "t"))
        assert seen in states, (point, seen)
        # Upkeep in between takes away nothing of either.
        Table.open(folder / "t").expire(retain_min=9, staging_age="0 s")
        Table.open(folder / "t").orphans(older_than="0 s", remove=True)
        done = Table.open(folder / "t")
        done.fast_forward("b")
        assert rows(Table.open(folder / "t")) == rows(branch) == states[-1]
        assert [t["tag"] for t in done.tags()] == ["branch_b", "end"]
        done = Table.open(folder / "t")
        assert done.verify().passed
        done.upsert([{"id": 9, "v": "m", "w": 0}])
        assert rows(done) == {**states[-1], 9: "m"}
    assert point >= 5


def test_a_deleted_branch_leaves_nothing_to_one_of_its_name(table: Table) -> None:
    table.create_branch("b", snapshot=1)
    table.branch("b").upsert([{"id": 1, "v": "b"}], batch_id="x")
    assert table.delete_branch("b", dry_run=True).snapshots == (1, 2)
    table.delete_branch("b")
    assert (len(table.branches()), len(table.tags())) == (0, 0)
    table.orphans(older_than="0 s", remove=True)
    table.create_branch("b", snapshot=1)
    table.branch("b").upsert([{"id": 5, "v": "again"}], batch_id="x")
    assert rows(table.branch("b")) == {1: "a", 5: "again"}
    assert rows(table) == {1: "a"}


def test_an_empty_branch_and_the_option_branch(table: Table) -> None:
    table.create_branch("b")
    table.branch("b").upsert([{"id": 7, "v": "b"}])
    table.alter(set={"branch": "b"})
    assert rows(Table.open(table.uri)) == {7: "b"}
    assert rows(Table.open(table.uri, branch="main")) == {1: "a"}
    with pytest.raises(InvalidInputError, match="option 'branch'"):
        table.delete_branch("b")


def test_a_tag_is_renamed_and_a_rollback_goes_to_a_time(table: Table) -> None:
    first = table.snapshot
    assert first is not None
    table.create_tag("old", timestamp=first.time_millis)
    with pytest.raises(InvalidInputError, match="no snapshot at or after"):
        table.create_tag("late", timestamp="2199-01-01")
    assert table.rename_tag("old", "new").snapshot == 1
    assert [row["tag"] for row in table.tags()] == ["new"]
    with pytest.raises(NotFoundError, match="tags: new"):
        table.rename_tag("old", "other")
    table.create_tag("taken")
    with pytest.raises(InvalidInputError, match="exists already"):
        table.rename_tag("new", "taken")
    table.upsert([{"id": 1, "v": "m"}])
    assert table.rollback(timestamp=first.time_millis).snapshot == 1
    assert rows(table) == {1: "a"}
    with pytest.raises(NotFoundError, match="no snapshot has a watermark"):
        table.rollback(watermark=5)
    with pytest.raises(InvalidInputError, match="one state"):
        table.rollback(1, watermark=5)
    # Watermarks come from Java's streams.
    path = Path(table.paths.snapshot_path(1))
    path.write_text(json.dumps({**json.loads(path.read_text()), "watermark": 5}))
    table = Table.open(table.uri)
    table.upsert([{"id": 1, "v": "later"}])
    path = Path(table.paths.snapshot_path(2))
    path.write_text(json.dumps({**json.loads(path.read_text()), "watermark": 9}))
    assert Table.open(table.uri).rollback(watermark=8).snapshot == 1
