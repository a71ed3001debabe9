"""A small batch without a name leaves no staging, and is as safe as one that does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.batch.artifacts import staging_root
from lakeidx.batch.context import make_context
from lakeidx.batch.upsert import commit_batch
from lakeidx.errors import CommitUnknownError, InvalidInputError, UnavailableError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.staging_cleanup import clean_orphans, clean_staging, staged_files
from lakeidx.testing.fault_store import FaultStore
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.small_tables import SPEC

LATER_MS, WEEK_MS = 60_000, 7 * 86_400_000
OPTIONS: dict[str, dict[str, str]] = {
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "fixed": {"bucket": "2"},
    "by keys": {"bucket": "-1", "index.type": "simple"},
}


class DiedError(BaseException):
    """The process's death."""


@pytest.fixture(params=["dynamic", "fixed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return create(tmp_path, request.param)


def create(folder: Path, kind: str, options: dict[str, str] | None = None) -> Table:
    return Table.create(f"{folder}/wh/d.db/t", {**SPEC, "options": options or OPTIONS[kind]})


def rows(value: str, keys: Iterator[int] | range) -> pa.Table:
    numbers = [*keys]
    return pa.table({
        "p": pa.array([k % 2 for k in numbers], pa.int32()), "k": pa.array(numbers, pa.int64()), "v": [value] * len(numbers)
    })  # fmt: skip


def faulty(table: Table) -> tuple[Table, FaultStore]:
    """The table as another process sees it, over a store that fails."""
    other = Table.open(table.uri)
    store = FaultStore(other.metadata.store)
    other.metadata.store = store
    other.store = store
    return other, store


def content(table: Table) -> dict[int, str]:
    found = Table.open(table.uri).scan().to_arrow().to_pylist()
    out = {row["k"]: row["v"] for row in found}
    assert len(out) == len(found), "a key came twice"
    return out


def staging(table: Table) -> list[str]:
    return [f.path for f in table.metadata.store.walk(staging_root(table.metadata.paths))]


def now_ms() -> int:
    return int(time.time() * 1000)


def test_nothing_is_staged(table: Table) -> None:
    result = table.upsert(rows("a", range(10)))
    assert table.upsert(rows("b", range(5, 12))).as_dict()["rows"] == 7
    assert result.snapshots == (1,)
    assert staging(table) == []
    assert content(table) == {k: "a" if k < 5 else "b" for k in range(12)}
    table.upsert(rows("c", range(1)), batch_id="named")
    assert staging(table) != []


def test_an_index_that_looks_at_keys_has_its_batches_staged(tmp_path: Path) -> None:
    table = create(tmp_path, "by keys")
    table.upsert(rows("a", range(4)))
    assert staging(table) != []
    assert content(table) == dict.fromkeys(range(4), "a")


def test_rows_that_are_refused_leave_nothing(table: Table) -> None:
    bad = rows("a", range(3)).set_column(1, "k", pa.array([1, None, 2], pa.int64()))
    with pytest.raises(InvalidInputError):
        table.upsert(bad)
    assert staging(table) == []
    assert files_on_disk(table) == set()


@pytest.mark.slow
def test_orphans_of_any_age_are_cleaned_at_every_call(table: Table) -> None:
    """Whatever has been written and not committed is spared, by each of the calls that follow."""
    table.upsert(rows("a", range(6)))
    other, store = faulty(table)
    store.fail(act=lambda *_: clean(table) and None, times=10_000)
    store.fail(when="after", act=lambda *_: clean(table) and None, times=10_000)
    other.upsert(rows("b", range(3, 9)))
    assert len(store.calls) > 10
    assert content(table) == {k: "a" if k < 3 else "b" for k in range(9)}
    assert files_on_disk(table) == reachable(table)


def clean(table: Table) -> int:
    found = clean_orphans(Table.open(table.uri).metadata, now_ms=now_ms() + LATER_MS, older_than_ms=0, dry_run=False)
    return len(found.files)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first"), [("dynamic", 0), ("fixed", 2)])
def test_a_process_dies_at_any_call(tmp_path: Path, kind: str, first: int) -> None:
    """The table has the batch or not, the next one goes in, and in the end nothing is left of those that died."""
    table = create(tmp_path, kind)
    table.upsert(rows("first", range(4)))
    calls = calls_of_a_batch(table)
    expected = content(table)
    for number in range(first, calls, 4):
        other, store = faulty(table)
        when: Any = "before" if number % 8 < 4 else "after"
        store.fail(error=DiedError, when=when, skip=number, times=10_000)
        batch = rows(f"dead {number}", range(2, 7))
        with pytest.raises(DiedError):
            other.upsert(batch)
        found = content(table)
        assert found in (expected, {**expected, **dict.fromkeys(range(2, 7), f"dead {number}")})
        table.upsert(rows(f"{number}", range(5)))
        expected = {**found, **dict.fromkeys(range(5), f"{number}")}
    assert content(table) == expected
    assert staging(table)
    assert staged_files(table.metadata).since_ms is not None
    clean_staging(table.metadata, now_ms=now_ms() + WEEK_MS + LATER_MS)
    assert staging(table) == []
    clean(table)
    assert content(table) == expected
    assert files_on_disk(table) == reachable(table)


def calls_of_a_batch(table: Table) -> int:
    other, store = faulty(table)
    other.upsert(rows("counted", range(2, 7)))
    return len(store.calls)


def test_a_batch_that_may_be_in_the_table_is_staged_and_can_be_committed_again(table: Table) -> None:
    table.upsert(rows("a", range(6)))
    other, store = faulty(table)

    def lost(verb: str, path: str) -> None:
        store.fail(("get", "exists"), "snapshot/snapshot-", times=10_000)
        raise CommitUnknownError("the connection was lost", path=path)

    store.fail("put_if_absent", "snapshot/snapshot-", act=lost, when="after")
    with pytest.raises(CommitUnknownError):
        other.upsert(rows("b", range(3, 9)))
    (batch_id,) = {path.split("/t/")[1].split("/")[0] for path in staging(table)}
    report = commit_batch(make_context(Table.open(table.uri).metadata, batch_id))
    assert report.already
    assert report.snapshot_ids == (2,)
    assert content(table) == {k: "a" if k < 3 else "b" for k in range(9)}


def test_a_note_that_cannot_be_taken_away_is_no_failure_of_the_batch(table: Table) -> None:
    other, store = faulty(table)
    store.fail("delete", "/_writing/", error=UnavailableError("gone"))
    assert other.upsert(rows("a", range(3))).snapshots == (1,)
    assert content(table) == dict.fromkeys(range(3), "a")
    assert len(staging(table)) == 1


class Disk:
    """What is on the disk: files, under whatever name, and directories that were waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        monkeypatch.setattr(os, "fsync", lambda fd: self.synced.add(os.fstat(fd).st_ino))

    def has(self, root: str, names: set[str]) -> bool:
        paths = {os.path.join(root, name) for name in names}
        return {os.stat(path).st_ino for path in paths | {os.path.dirname(path) for path in paths}} <= self.synced


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "-1", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
        {"bucket": "2", "changelog-producer": "input"},
    ],
)
def test_the_disk_has_all_files_before_the_snapshot(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: data, index and changelog files, those beside them, manifests."""
    disk, table, link, found = Disk(monkeypatch), create(tmp_path, "fixed", options), os.link, list[bool]()

    def publish(source: str, target: str) -> None:
        link(source, target)
        names = {name for name in reachable(Table.open(table.uri)) if not name.startswith("snapshot/")}
        assert len(names) > 5, names
        found.append(disk.has(table.uri, names))

    monkeypatch.setattr(os, "link", publish)
    for turn in range(3):
        table.upsert(rows(f"{turn}", range(turn, turn + 4)))
    assert found == [True] * 3


def test_a_batch_whose_commit_failed_is_staged_on_the_disk_and_can_be_committed_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert(rows("a", range(6)))
    disk, before = Disk(monkeypatch), files_on_disk(Table.open(table.uri))
    other, store = faulty(table)
    store.fail("put", "/manifest/", error=UnavailableError("gone"))
    with pytest.raises(UnavailableError):
        other.upsert(rows("b", range(3, 9)))
    new = {
        name for name in files_on_disk(Table.open(table.uri)) - before if "bucket-" in name or name.startswith("index/")
    }
    assert len(new) > 1
    assert disk.has(table.uri, new)
    (batch_id,) = {path.split("/t/")[1].split("/")[0] for path in staging(table)}
    assert clean(table) == 0
    commit_batch(make_context(Table.open(table.uri).metadata, batch_id))
    assert content(table) == {k: "a" if k < 3 else "b" for k in range(9)}


def test_an_alteration_that_the_batch_could_be_broken_by_is_refused_meanwhile(table: Table) -> None:
    other, store = faulty(table)
    refused: list[str] = []

    def alter(verb: str, path: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            alter_table(Table.open(table.uri), SchemaEdits(set={"merge-engine": "first-row"}))
        refused.append(str(caught.value))

    store.fail("put_if_absent", "snapshot/snapshot-", act=alter)
    other.upsert(rows("a", range(6)))
    assert len(refused) == 1
    assert "is staged with the schema before this change" in refused[0]
    assert content(table) == dict.fromkeys(range(6), "a")


def test_a_batch_asks_the_store_once_for_what_stays_as_it_is(tmp_path: Path) -> None:
    """Newest schema and snapshot are looked at when a batch is planned and committed; what has a name of its own is known."""
    table = create(tmp_path, "dynamic")
    for number in range(3):
        table.upsert(rows("a", range(number, number + 2)))
    store = FaultStore(table.metadata.store)
    table.metadata.store = store
    table.upsert(rows("b", range(1, 3)))
    asked = [(verb, path.removeprefix(table.uri).split("-")[0]) for verb, path in store.calls]
    assert asked.count(("get", "/snapshot/LATEST")) == 2
    # The third is the committed one, when the hint names it (`lakeidx.table.commit.commit_changes`).
    assert asked.count(("exists", "/snapshot/snapshot")) == 3
    # Planned, committed; the tags and the compaction that a batch may ask for go by the schema of the commit.
    assert asked.count(("list", "/schema")) == 2
    assert asked.count(("get", "/snapshot/snapshot")) == 3
    assert [path for verb, path in asked if verb == "get" and path.startswith("/manifest/")] == []
