"""Staging and orphans beside batches: nothing a batch may still commit is touched, what is done or given up goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch import staging_walk
from lakeidx.batch.artifacts import BatchFiles, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.staging_walk import batch_ids, walk_staging
from lakeidx.batch.upsert import commit_batch, finish_batch
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_orphans, clean_staging, staged_files
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.metered_store import MeteredStore
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.small_tables import content, filled_table, make_table, rows, staged_batch, upsert
from tests.kit.upserts import upsert_files

HOUR_MS = 3_600_000
LATER_MS = 60_000


def now_ms() -> int:
    return int(time.time() * 1000)


def staged(table: Table, batch_id: str, *, stages: int = 3) -> BatchContext:
    """A batch after its first stages: 1 ingest, 2 assignment, 3 write."""
    context = make_context(table.metadata, batch_id, runner=LocalRunner(1))
    stage_table(context.files, table.schema, rows([(1, k, batch_id) for k in range(5)]))
    if stages > 1:
        run_bucket_assignment(context, 1)
    if stages > 2:
        run_index_write(context, 1)
    return context


def clean(table: Table, *, dry_run: bool = False) -> int:
    return len(clean_orphans(table.metadata, now_ms=now_ms() + LATER_MS, older_than_ms=0, dry_run=dry_run).files)


def test_the_files_of_a_staged_batch_are_no_orphans(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 99, "old")])
    context = staged(table, "b")
    before = files_on_disk(table)
    assert before > reachable(table)
    assert clean(table) == 0
    assert files_on_disk(table) == before
    commit_batch(context)
    assert content(table) == {(1, k): "b" for k in range(5)} | {(1, 99): "old"}
    assert clean(table) == 0


@pytest.mark.parametrize("verb", ["open_output", "put_if_absent"])
def test_orphans_are_cleaned_in_the_middle_of_a_write(tmp_path: Path, verb: str) -> None:
    """Data files are there, no report names them yet."""
    table = filled_table(tmp_path, [(1, 99, "old")])
    store = FaultStore(table.store)
    racing = Table(store, table.paths)
    context = staged(racing, "b", stages=2)
    path = "data-" if verb == "open_output" else "index_write.json"
    fault = store.fail(verb, path, act=lambda *_: clean(Table.open(table.uri)) and None)
    finish_batch(context, lambda stage: None)
    assert fault.hits == 1
    assert content(Table.open(table.uri)) == {(1, k): "b" for k in range(5)} | {(1, 99): "old"}


def test_a_batch_that_is_planned_again_is_safe_all_the_way(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 0, "old")])
    store = FaultStore(table.store)
    context = staged(Table(store, table.paths), "b")
    upsert(table, [(1, k, "between") for k in range(8)])
    # Cleaned at every put of the second attempt and of the commit.
    store.fail(("put", "put_if_absent"), "", act=lambda *_: clean(Table.open(table.uri)) and None, times=100)
    report = commit_batch(context, sleep=lambda _: None)
    assert report.replans == 1
    expected = {(1, k): "b" for k in range(5)} | {(1, k): "between" for k in range(5, 8)}
    assert content(Table.open(table.uri)) == expected
    # What the first attempt had written is nobody's now.
    store.heal()
    assert clean(Table.open(table.uri)) > 0
    table = Table.open(table.uri)
    assert content(table) == expected
    assert files_on_disk(table) == reachable(table)


def test_while_a_batch_writes_older_orphans_still_go(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 99, "old")])
    lost = Path(table.uri) / "manifest" / "manifest-01234567-89ab-cdef-0123-456789abcdef-0"
    lost.write_bytes(b"")
    hour_ago = time.time() - 3600
    os.utime(lost, (hour_ago, hour_ago))
    staged(table, "b", stages=2)
    safe = staged_files(table.metadata)
    assert safe.since_ms is not None
    assert safe.names == frozenset()
    assert clean(table) == 1
    assert not lost.exists()


def staging(table: Table) -> list[str]:
    root = BatchFiles(table.store, table.paths, "x").root.rpartition("/")[0]
    return sorted(str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file())


def test_of_a_finished_batch_the_reports_stay(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, k, "a") for k in range(5)], batch_id="b")
    assert clean_staging(table.metadata, now_ms=now_ms()).files == ()
    plan = clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS, dry_run=True)
    assert plan.finished == ("b",)
    assert plan.bytes == sum(f.size for f in plan.files) > 0
    before = staging(table)
    done = clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS)
    assert {f.path for f in done.files} == {f.path for f in plan.files}
    assert len(staging(table)) == len(before) - len(done.files)
    assert all(name.endswith(".json") for name in staging(table))
    # The id still counts once, and knows its content.
    upsert(table, [(1, k, "a") for k in range(5)], batch_id="b")
    with pytest.raises(InvalidInputError, match="other content"):
        upsert(table, [(1, 0, "other")], batch_id="b")
    assert content(table) == {(1, k): "a" for k in range(5)}
    assert clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS).finished == ()


WEEK_MS = 8 * 24 * HOUR_MS


def cleaned(table: Table) -> tuple[str, ...]:
    """Clean as it is done more than a week later, twice; ids of the batches whose reports were shortened."""
    clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS)
    return clean_staging(table.metadata, now_ms=now_ms() + WEEK_MS).shortened


def staged_bytes(table: Table) -> int:
    root = BatchFiles(table.store, table.paths, "x").root.rpartition("/")[0]
    return sum(p.stat().st_size for p in Path(root).rglob("*") if p.is_file())


@pytest.mark.slow
def test_a_large_batch_that_was_planned_again_leaves_two_kilobytes(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    values = [(p, k, "b") for p in range(30) for k in range(2)]
    context = staged_batch(table, values)
    upsert(table, [(p, 0, "between") for p in range(30)], batch_id="x")
    assert commit_batch(context, sleep=lambda _: None).replans == 1
    clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS)
    before = staged_bytes(table)
    assert clean_staging(table.metadata, now_ms=now_ms() + WEEK_MS, dry_run=True).shortened == ("b", "x")
    assert staged_bytes(table) == before > 10_000
    assert cleaned(table) == ("b", "x")
    assert staged_bytes(table) <= 2 * 2048
    assert cleaned(table) == ()
    # The id still counts once, and knows its content.
    again = upsert(table, values, batch_id="b")
    assert (again.already, again.snapshots, again.as_dict()["buckets"]) == (True, (2,), 30)
    for other in ([(0, 0, "other"), *values[1:]], values[1:]):
        with pytest.raises(InvalidInputError, match="other content"):
            upsert(table, other, batch_id="b")
    with pytest.raises(InvalidInputError, match="ran in mode upsert"):
        upsert(table, values, batch_id="b", overwrite="table")
    assert table.metadata.snapshot_ids() == [1, 2]
    # After a rollback it does not count any more.
    roll_back_table(table.metadata, table.schema, snapshot_id=1)
    assert not upsert(Table.open(table.uri), values, batch_id="b").already
    assert content(Table.open(table.uri)) == {(p, k): "b" for p, k, _ in values}


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 40])
def test_landing_files_are_known_when_the_reports_are_short(tmp_path: Path, files: int) -> None:
    table = make_table(tmp_path)
    landing = [tmp_path / f"landed-{n}.csv" for n in range(files)]
    for n, path in enumerate(landing):
        path.write_text("p,k,v\n" + "".join(f"{p},{n},x\n" for p in range(20)))

    def load(*chosen: Path) -> bool:
        context = make_context(Table.open(table.uri).metadata, "b", runner=LocalRunner(1))
        return upsert_files(context, [str(p) for p in chosen]).already

    assert not load(*landing)
    assert cleaned(table) == ("b",)
    assert staged_bytes(table) <= 2048
    assert load(*landing)
    # The same content, written anew.
    text = landing[-1].read_text()
    landing[-1].write_text(text)
    os.utime(landing[-1], (1, 1))
    assert load(*landing)
    landing[-1].write_text(text.replace("19,", "18,"))
    with pytest.raises(InvalidInputError, match="other content"):
        load(*landing)
    with pytest.raises(InvalidInputError, match="other content"):
        load(*landing, landing[0])
    # Missing by now: taken for the one that was ingested.
    landing[-1].unlink()
    assert load(*landing)


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(6))
def test_a_cleaner_that_dies_while_it_shortens_loses_nothing(tmp_path: Path, calls: int) -> None:
    table = make_table(tmp_path)
    values = [(p, 0, "a") for p in range(30)]
    upsert(table, values, batch_id="b")
    clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS)
    store = FaultStore(table.store)
    store.fail(("put", "delete"), "", error=KeyboardInterrupt, skip=calls)
    try:
        clean_staging(Table(store, table.paths).metadata, now_ms=now_ms() + WEEK_MS)
        died = False
    except KeyboardInterrupt:
        died = True
    assert died == (calls < 5)
    assert upsert(table, values, batch_id="b").already
    cleaned(table)
    assert staged_bytes(table) <= 2048
    assert upsert(table, values, batch_id="b").already
    with pytest.raises(InvalidInputError, match="other content"):
        upsert(table, [(0, 0, "b"), *values[1:]], batch_id="b")
    assert table.metadata.snapshot_ids() == [1]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_an_abandoned_batch_goes_and_can_be_run_anew(tmp_path: Path, stages: int) -> None:
    table = make_table(tmp_path)
    staged(table, "b", stages=stages)
    assert clean_staging(table.metadata, now_ms=now_ms() + 24 * HOUR_MS).abandoned == ()
    report = clean_staging(table.metadata, now_ms=now_ms() + 8 * 24 * HOUR_MS)
    assert report.abandoned == ("b",)
    assert staging(table) == []
    upsert(table, [(1, 1, "anew")], batch_id="b")
    assert content(table) == {(1, 1): "anew"}
    clean(table)
    assert files_on_disk(table) == reachable(table)


def test_an_abandoned_batch_that_was_committed_is_not_committed_twice(tmp_path: Path) -> None:
    """The writer died between the snapshot and its report; a week later staging is cleaned, then the batch is run again."""
    table = make_table(tmp_path)
    store = FaultStore(table.store)
    context = staged(Table(store, table.paths), "b")
    store.fail("put_if_absent", "commit.json", error=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        commit_batch(context)
    assert table.metadata.snapshot_ids() == [1]
    clean_staging(table.metadata, now_ms=now_ms() + 8 * 24 * HOUR_MS)
    files = BatchFiles(table.store, table.paths, "b")
    assert files.read(IngestReport) is not None
    assert files.read(IndexWriteReport) is not None
    assert clean(table) == 0
    again = make_context(Table.open(table.uri).metadata, "b", runner=LocalRunner(1))
    report = commit_batch(again)
    assert report.already
    assert report.snapshot_ids == (1,)
    assert Table.open(table.uri).metadata.snapshot_ids() == [1]
    assert files.read(CommitReport) is not None
    assert list(batch_ids(table.store, table.paths)) == ["b"]


def test_batches_that_are_done_cost_a_place_in_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_table(tmp_path)
    for i in range(12):
        upsert(made, [(1, i, "a")])
    staged(made, "open")
    table = Table.open(made.uri)
    store = MeteredStore(table.metadata.store)
    table.metadata.store = store
    report = clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS)
    assert len(report.finished) == 12
    listing = {"list": 1, "walk": 1}
    assert {v: c.requests for v, c in store.counts.items()} == {**listing, "delete": len(report.files)}
    store.reset()
    assert clean_staging(table.metadata, now_ms=now_ms() + 2 * HOUR_MS).files == ()
    assert {v: c.requests for v, c in store.counts.items() if v != "delete"} == listing
    store.reset()
    assert staged_files(table.metadata).names
    # The one batch that is open: its reports, and whether there is a second attempt.
    counts = {v: c.requests for v, c in store.counts.items()}
    assert counts.pop("walk") == 1
    assert sum(counts.values()) <= 9, counts
    # Many are listed in parallel, and are the same ones.
    some = [(b.batch_id, b.files) for b in walk_staging(made.store, made.paths)[0]]
    monkeypatch.setattr(staging_walk, "_IN_ONE_WALK", 3)
    store.reset()
    assert [(b.batch_id, b.files) for b in walk_staging(store, made.paths)[0]] == some
    assert 1 < store.counts["walk"].requests <= 13
