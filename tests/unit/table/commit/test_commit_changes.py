"""Commits: races, unknown outcomes, conflicts, at-most-once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.errors import CommitConflictError, CommitUnknownError, UnavailableError
from lakeidx.format.snapshot import CommitKind
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes, put_newest_hint, renew_passed_hint
from lakeidx.table.view import load_view
from lakeidx.testing.fault_store import FaultStore
from tests.kit.metered_store import MeteredStore
from tests.kit.small_tables import content, filled_table, make_table, rows, upsert
from tests.kit.upserts import upsert_table


def with_faults(table: Table) -> tuple[Table, FaultStore]:
    store = FaultStore(table.store)
    return Table(store, table.paths), store


def test_snapshots_chain_and_count(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a"), (1, 2, "b")], [(1, 2, "B"), (2, 3, "c")])
    first, second = table.metadata.snapshots()
    assert (first.id, second.id) == (1, 2)
    assert (first.commit_kind, second.commit_kind) == (CommitKind.APPEND, CommitKind.APPEND)
    assert (first.total_record_count, second.delta_record_count, second.total_record_count) == (2, 2, 4)
    assert second.time_millis >= first.time_millis
    assert content(table) == {(1, 1): "a", (1, 2): "B", (2, 3): "c"}
    assert content(table, snapshot=1) == {(1, 1): "a", (1, 2): "b"}
    assert content(table, timestamp_ms=second.time_millis) == content(table)


@pytest.mark.slow
def test_what_a_commit_keeps_in_memory_is_what_its_files_hold(tmp_path: Path) -> None:
    """Its snapshot, its manifests and its index manifest are not read again; another process reads them."""
    table = make_table(tmp_path)
    for number in range(40):
        upsert(table, [(number % 3, number, "a")])
        kept, read = table.metadata, Table.open(table.metadata.paths.root).metadata
        mine, theirs = kept.latest_snapshot(), read.latest_snapshot()
        assert mine == theirs
        assert mine is not None
        assert theirs is not None
        assert kept.data_manifests(mine) == read.data_manifests(theirs)
        assert kept.load_index_manifest(mine.index_manifest) == read.load_index_manifest(mine.index_manifest)
        assert load_view(kept, mine) == load_view(read, theirs)


def _remove_report(table: Table, stage: str) -> None:
    for info in table.store.walk(str(Path(table.uri).parent.parent / "_lakeidx")):
        if info.name == f"{stage}.json":
            table.store.delete(info.path)


def test_a_commit_whose_report_was_lost_is_found_by_its_user(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")], batch_id="one")
    upsert(table, [(1, 2, "b")], batch_id="two")
    _remove_report(table, "commit")
    again = upsert(table, [(1, 1, "a")], batch_id="one")
    assert again.commit.already
    assert again.commit.snapshot_ids == (1,)
    assert table.metadata.snapshot_ids() == [1, 2]


def test_a_commit_that_was_expired_is_not_made_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")], batch_id="one")
    for i in range(3):
        upsert(table, [(1, 1, f"later {i}")])
    _remove_report(table, "commit")
    for gone in (1, 2, 3):
        table.store.delete(table.paths.snapshot_path(gone))
    table.store.put(table.paths.earliest, b"4")
    table = Table.open(table.uri)
    again = upsert(table, [(1, 1, "a")], batch_id="one")
    assert again.commit.already
    assert content(table) == {(1, 1): "later 2"}


def test_a_put_whose_answer_was_lost_counts_once(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path))
    fault = store.fail("put_if_absent", "snapshot-1", when="after", error=CommitUnknownError("no answer"))
    result = upsert(table, [(1, 1, "a")])
    assert fault.hits == 1
    assert result.commit.snapshot_ids == (1,)
    assert content(table) == {(1, 1): "a"}


def test_a_put_that_never_arrived_is_tried_again(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path))
    store.fail("put_if_absent", "snapshot-1", when="before", error=UnavailableError("slow down"), times=2)
    assert upsert(table, [(1, 1, "a")]).commit.snapshot_ids == (1,)
    assert content(table) == {(1, 1): "a"}


def test_an_unknown_outcome_is_said_and_the_next_call_finds_out(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path))
    store.fail("put_if_absent", "snapshot-1", when="after", error=CommitUnknownError("no answer"))
    store.fail("get", "snapshot-1", when="before", error=UnavailableError("no answer"))
    with pytest.raises(CommitUnknownError):
        upsert(table, [(1, 1, "a")], batch_id="one")
    assert upsert(table, [(1, 1, "a")], batch_id="one").commit.snapshot_ids == (1,)
    assert table.metadata.snapshot_ids() == [1]


def test_a_lost_race_leaves_no_metadata_behind_and_retries(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path))
    other = Table.open(table.uri)

    def overtake(verb: str, path: str) -> None:
        upsert(other, [(2, 9, "other")])

    store.fail("put_if_absent", "/snapshot/snapshot-1", when="before", act=overtake)
    result = upsert(table, [(1, 1, "mine")])
    assert result.commit.snapshot_ids == (2,)
    assert content(table) == {(1, 1): "mine", (2, 9): "other"}
    used = set()
    for snapshot in table.metadata.snapshots():
        used |= {snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest}
        used |= {m.file_name for m in table.metadata.data_manifests(snapshot)}
    assert {f.name for f in table.store.list(table.paths.manifest_dir)} == used


def test_a_lost_race_lists_no_history(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path))
    other = Table.open(table.uri)
    for key in range(3):
        upsert(other, [(2, key, "other")])

    def overtake(verb: str, path: str) -> None:
        upsert(other, [(2, 9, "other")])
        store.fail("list", "/snapshot", when="before", error=UnavailableError("the history was listed"))

    store.fail("put_if_absent", "/snapshot/snapshot-4", when="before", act=overtake)
    assert upsert(table, [(1, 1, "mine")]).commit.snapshot_ids == (5,)


def test_a_conflict_names_what_happened(tmp_path: Path) -> None:
    """The same changes committed under another identity: their files are live already."""
    table = make_table(tmp_path)
    context = make_context(table.metadata, "one")
    result = upsert_table(context, rows([(1, 1, "a")]))
    from dataclasses import replace

    from lakeidx.batch.stages.commit import build_request

    request = build_request(context, result.assign, result.write, None)
    with pytest.raises(CommitConflictError, match="added twice"):
        commit_changes(table.metadata, replace(request, commit_user="somebody else"))


def test_the_budget_of_tries_is_kept(tmp_path: Path) -> None:
    table, store = with_faults(make_table(tmp_path, options={"commit.max-retries": "2"}))
    other = Table.open(table.uri)
    number = iter(range(100))

    def overtake(verb: str, path: str) -> None:
        upsert(other, [(2, next(number), "other")])

    store.fail("put_if_absent", "/snapshot/snapshot-", when="before", act=overtake, times=3)
    context = make_context(table.metadata, "one")
    slept: list[float] = []
    from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
    from lakeidx.batch.stages.commit import build_request
    from lakeidx.batch.stages.given_rows import stage_table
    from lakeidx.batch.stages.index_write import run_index_write

    stage_table(context.files, table.schema, rows([(1, 1, "a")]))
    assign = run_bucket_assignment(context)
    write = run_index_write(context, 1)
    with pytest.raises(CommitConflictError, match="gave up after 3 tries"):
        commit_changes(table.metadata, build_request(context, assign, write, None), sleep=slept.append)
    assert len(slept) == 2
    assert slept[0] < slept[1]


@pytest.mark.slow
def test_many_commits_keep_the_manifest_list_short(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"manifest.merge-min-count": "5", "bucket": "2"})
    expected: dict[Any, Any] = {}
    for i in range(17):
        upsert(table, [(1, i % 7, f"v{i}")])
        expected[(1, i % 7)] = f"v{i}"
    assert table.snapshot is not None
    assert len(table.metadata.load_manifest_list(table.snapshot.base_manifest_list)) <= 5
    assert content(table) == expected


# ---- requests --------------------------------------------------------------------------------------------------------


NEW_FILES = 500


def test_five_hundred_new_files_are_not_listed_one_by_one(tmp_path: Path) -> None:
    made = filled_table(tmp_path, [(1, k, "a") for k in range(10)])
    before = load_view(made.metadata, made.snapshot).entries[0]
    files = [
        replace(before, file=replace(before.file, file_name=f"data-new-{i}.parquet", min_sequence_number=1000 + i,
                                     max_sequence_number=1000 + i))
        for i in range(NEW_FILES)
    ]  # fmt: skip
    table = Table.open(made.uri)
    store = MeteredStore(table.metadata.store)
    table.metadata.store = store
    request = CommitRequest(commit_user="batch", changes=TableChanges(append=tuple(files)), base_snapshot_id=1)
    commit_changes(table.metadata, request)
    counts = {verb: count.requests for verb, count in store.counts.items()}
    assert counts["list"] <= 5, counts
    assert counts.get("info", 0) + counts.get("size", 0) + counts.get("exists", 0) <= 5, counts
    assert sum(counts.values()) <= 25, counts
    store.reset()
    view = load_view(table.metadata, table.snapshot)
    assert {e.file.file_name for e in view.entries} >= {e.file.file_name for e in files}
    assert store.total.requests <= 10, store.counts


# ---- the hint LATEST: what is put, by whom, and with how many requests -----------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots 2 and 3; 1 is gone."""
    made = make_table(tmp_path)
    for number in range(3):
        upsert(made, [(1, number, "row")])
    made.store.delete(made.paths.snapshot_path(1))
    return Table.open(made.uri)


def test_a_snapshot_that_is_there_is_named_as_asked(table: Table) -> None:
    store = FaultStore(table.store)
    metadata = Table(store, table.paths).metadata
    store.calls.clear()
    put_newest_hint(metadata, 2)
    assert table.metadata.latest_hint() == 2
    assert [verb for verb, _ in store.calls] == ["put", "exists"]


def test_in_place_of_one_that_is_gone_the_newest_is_named(table: Table) -> None:
    put_newest_hint(table.metadata, 1)
    assert table.metadata.latest_hint() == 3


def test_the_newest_may_go_meanwhile(table: Table) -> None:
    """A rollback takes snapshot 3 when it has been listed."""
    store = FaultStore(table.store)
    store.fail("put", "/LATEST", when="after", act=lambda *_: table.store.delete(table.paths.snapshot_path(3)), times=2)
    put_newest_hint(Table(store, table.paths).metadata, 1)
    assert table.metadata.latest_hint() == 2


def test_no_snapshot_at_all_ends_too(table: Table) -> None:
    for number in (2, 3):
        table.store.delete(table.paths.snapshot_path(number))
    put_newest_hint(table.metadata, 2)
    assert table.metadata.latest_hint() == 2


@pytest.mark.parametrize(("hint", "after"), [(b"1", 3), (b"2", 2), (b"3", 3), (None, None)])
def test_an_expiry_renews_what_names_an_expired_one(table: Table, hint: bytes | None, after: int | None) -> None:
    table.store.delete(table.paths.latest)
    if hint is not None:
        table.store.put(table.paths.latest, hint)
    renew_passed_hint(table.metadata, 2)
    assert table.metadata.latest_hint() == after
