"""Batches that come again, under their own id or another one's."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, CommitReport
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.commit import STALE_WRITE_MS
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.upsert import commit_batch, ingest_files
from lakeidx.cli.main import app
from lakeidx.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_orphans, clean_staging
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.table.expiration.tags import create_tag
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table.foreign import add_column, make_branch
from tests.kit.small_tables import content, filled_table, keep_newest, make_table, rows, staged_batch, upsert
from tests.kit.upserts import upsert_files, upsert_table

# A batch id whose rows were rolled back, or whose table was created again, did nothing and said success; so did other content.


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    upsert(made, [(1, 0, "first")], batch_id="first")
    return made


def landing(folder: Path, name: str, *lines: str) -> str:
    path = folder / name
    path.write_text("\n".join(("p,k,v", *lines)) + "\n")
    return str(path)


def load(table: Table, batch_id: str, *files: str) -> tuple[bool, tuple[int, ...]]:
    """Load files as another process does: (already, snapshots)."""
    context = make_context(Table.open(table.uri).metadata, batch_id)
    result = upsert_files(context, list(files))
    return result.already, result.commit.snapshot_ids


def on_branch(table: Table) -> Table:
    """A branch of the table as it is now."""
    create_tag(table.metadata, "start")
    make_branch(Path(table.uri), "x", "start")
    return Table(table.store, TablePaths.of(table.uri, table.schema, branch="x"))


def test_an_id_counts_once_on_each_branch(table: Table) -> None:
    """A batch on a branch took the staged rows of the same id on the table itself for its own, and did nothing."""
    branch = on_branch(table)
    for name, place in (("branch", branch), ("main", table), ("branch", branch), ("main", table)):
        upsert(place, [(1, 1, name)], batch_id="day")
    assert content(table) == {(1, 0): "first", (1, 1): "main"}
    assert content(branch) == {(1, 0): "first", (1, 1): "branch"}
    assert (newest_id(table), newest_id(branch)) == (2, 2)
    assert upsert(branch, [(1, 1, "branch")], batch_id="day").already
    with pytest.raises(InvalidInputError, match="was ingested with other content"):
        upsert(branch, [(1, 1, "main")], batch_id="day")


def newest_id(table: Table) -> int | None:
    return table.metadata.latest_snapshot_id()


@pytest.mark.slow
@pytest.mark.parametrize("again", ["branch", "other rows"])
def test_a_branch_made_again_has_none_of_its_batches(table: Table, again: str) -> None:
    """Its name, its tag and the table are those of the branch that was dropped; the staged rows of that one are still there."""
    dropped = on_branch(table)
    upsert(dropped, [(1, 1, "branch")], batch_id="day")
    waits = make_context(dropped.metadata, "night", runner=LocalRunner(1))
    stage_table(waits.files, dropped.schema, rows([(1, 2, "dropped")]), table_id=dropped.metadata.table_id)
    shutil.rmtree(Path(table.uri, "branch", "branch-x"))
    make_branch(Path(table.uri), "x", "start")
    branch = Table(table.store, TablePaths.of(table.uri, table.schema, branch="x"))
    assert not upsert(branch, [(1, 1, again)], batch_id="day").already
    assert content(branch) == {(1, 0): "first", (1, 1): again}
    assert upsert(branch, [(1, 1, again)], batch_id="day").already
    assert content(dropped) == content(branch)


def test_cleaning_the_table_knows_batches_that_wait_on_a_branch(table: Table) -> None:
    """Their files are safe from the cleaner, and those that were given up go with the table's."""
    branch = on_branch(table)
    context = staged_batch(branch, [(1, 1, "branch")], "day")
    later = int(time.time() * 1000) + 86_400_000
    assert clean_orphans(table.metadata, now_ms=later, older_than_ms=0, dry_run=False).files == ()
    commit_batch(context)
    assert content(branch) == {(1, 0): "first", (1, 1): "branch"}
    assert "day" in clean_staging(table.metadata, now_ms=later).finished
    assert upsert(branch, [(1, 1, "branch")], batch_id="day").already


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize(("first", "second"), [(None, "table"), ("table", None), ("partitions", "table")])
def test_one_id_in_two_modes_is_refused(table: Table, first: str | None, second: str | None, cleaned: bool) -> None:
    """An upsert that came after an overwrite of the same rows under its id said success, and so did the reverse."""
    same = rows([(1, 1, "row")])
    upsert_table(make_context(table.metadata, "day", overwrite=first), same)
    if cleaned:
        clean_staging(table.metadata, now_ms=int(time.time() * 1000) + 86_400_000)
    expected = content(Table.open(table.uri))
    with pytest.raises(InvalidInputError, match=f"'day' ran in mode {first or 'upsert'}, .* mode {second or 'upsert'}"):
        upsert_table(make_context(table.metadata, "day", overwrite=second), same)
    assert content(Table.open(table.uri)) == expected
    assert upsert_table(make_context(table.metadata, "day", overwrite=first), same).already


def test_rows_are_compared_after_a_schema_change(table: Table) -> None:
    """Other rows of the same number were taken for those of the batch once the table had got a column."""
    batch = rows([(1, 1, "row")])
    upsert_table(make_context(table.metadata, "day"), batch)
    lakeidx.Table.open(table.uri).alter(add={"w": "INT"})
    for other in (rows([(1, 1, "other")]), batch.append_column("w", pa.array([7], pa.int32()))):
        with pytest.raises(InvalidInputError, match=r"batch 'day' was ingested with other content"):
            upsert_table(make_context(Table.open(table.uri).metadata, "day"), other)
    assert upsert_table(make_context(Table.open(table.uri).metadata, "day"), batch).already
    assert Table.open(table.uri).scan(columns=["v"]).to_arrow().column("v").to_pylist() == ["first", "row"]


def test_other_content_is_refused(table: Table, tmp_path: Path) -> None:
    one = landing(tmp_path, "a.csv", "1,1,a")
    load(table, "day", one)
    for other in (
        [landing(tmp_path, "b.csv", "1,1,b")],
        [landing(tmp_path, "c.csv", "1,1,longer")],
        [one, one],
        [landing(tmp_path, "a.csv", "1,1,c")],
    ):
        before = content(Table.open(table.uri))
        with pytest.raises(
            InvalidInputError, match=r"batch 'day' was ingested with other content .* use a new batch id"
        ):
            load(table, "day", *other)
        assert content(Table.open(table.uri)) == before


def test_the_same_content_is_known_by_its_bytes(table: Table, tmp_path: Path) -> None:
    one = landing(tmp_path, "a.csv", "1,1,a")
    load(table, "day", one)
    os.utime(one, (1, 1))
    assert load(table, "day", one) == (True, (2,))
    assert load(table, "day", landing(tmp_path, "copy.csv", "1,1,a")) == (True, (2,))
    Path(one).unlink()
    assert load(table, "day", one) == (True, (2,))


def test_other_rows_are_refused(table: Table) -> None:
    def again(values: list[tuple[int, int, str | None]]) -> bool:
        return upsert(Table.open(table.uri), values, batch_id="day").already

    values: list[tuple[int, int, str | None]] = [(1, 1, "a"), (1, 2, None)]
    assert not again(values)
    assert again(values)
    for other in ([(1, 1, "a")], [(1, 1, "a"), (1, 2, "b")], [(1, 2, None), (1, 1, "a")]):
        with pytest.raises(InvalidInputError, match="other content"):
            again(other)  # type: ignore[arg-type]


def test_rows_are_the_same_in_other_chunks(table: Table) -> None:
    import pyarrow as pa

    values = rows([(1, k, f"{k}") for k in range(100)])
    upsert_table(make_context(table.metadata, "day"), values)
    pieces = pa.concat_tables([values.slice(0, 30), values.slice(30)])
    assert upsert_table(make_context(table.metadata, "day"), pieces).already


def test_the_command_line_says_already(table: Table, tmp_path: Path) -> None:
    file = landing(tmp_path, "a.csv", "1,1,a")
    for already in (False, True):
        outcome = CliRunner().invoke(app, ["upsert", table.uri, file, "--batch-id", "day", "--no-progress"])
        assert outcome.exit_code == 0
        assert json.loads(outcome.stdout.splitlines()[-1])["already"] is already


def test_superseded_runs_are_cleaned_and_stay_superseded(table: Table, tmp_path: Path) -> None:
    file = landing(tmp_path, "day.csv", "1,1,bad")
    load(table, "day", file)
    roll_back_table(table.metadata, table.schema, snapshot_id=1)
    load(table, "day", file)
    later = int(time.time() * 1000) + 30 * 86_400_000
    clean_staging(table.metadata, now_ms=later)
    files = BatchFiles(table.store, table.paths, "day")
    assert files.run == 2
    assert files.read(CommitReport) is not None
    assert sorted(p.name for p in Path(files.directory).iterdir() if p.is_file()) == ["superseded-1.json"]
    assert load(table, "day", file) == (True, (2,))


def test_a_batch_whose_files_another_cleaner_removed_is_planned_again(table: Table) -> None:
    context = make_context(table.metadata, "b")
    stage_table(context.files, table.schema, rows([(1, 1, "row")]), table_id=table.metadata.table_id)
    run_bucket_assignment(context, 1)
    before = set(Path(table.uri).rglob("data-*"))
    run_index_write(context, 1)
    for k in range(3):
        upsert(table, [(1, 10 + k, "later")])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    keep_newest(table)
    live = {p.name for p in before}
    (mine,) = (p for p in Path(table.uri).rglob("data-*") if p.name not in live and _rows_of(p) == 1)
    mine.unlink()
    old = time.time() - STALE_WRITE_MS / 1000 - 60
    for report in Path(context.files.root).glob("*.json"):
        os.utime(report, (old, old))
    result = upsert(Table.open(table.uri), [(1, 1, "row")], batch_id="b")
    assert not result.already
    assert content(Table.open(table.uri))[1, 1] == "row"


def _rows_of(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(path).metadata.num_rows)


# A query of Spark died between a batch and its log of it, and its rows differ each time: every restart was refused.

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])


def batch(table: Table, value: str, keys: int = 3, **options: str) -> None:
    """Write as Spark does, under the same id each time."""
    given = ReadOptions.parse({"path": table.uri, "batch-id": "b1", **options})
    writer = TableWriter(given, SCHEMA, overwrite=False)
    rows = pa.record_batch([[1] * keys, list(range(keys)), [value] * keys], schema=SCHEMA)
    writer.commit([writer.write(iter([rows]))])


def found(table: Table) -> list[str]:
    return [r["v"] for r in Table.open(table.uri).scan().to_arrow().sort_by("k").to_pylist()]


@pytest.fixture
def table_anew(tmp_path: Path) -> Table:
    return filled_table(tmp_path, [(1, 0, "before")])


def test_rows_that_come_again_otherwise_are_left_out(table_anew: Table) -> None:
    batch(table_anew, "first")
    for keys in (3, 5):
        with pytest.raises(InvalidInputError, match="batch 'b1' was ingested with other content"):
            batch(table_anew, "second", keys)
        batch(table_anew, "second", keys, replay="skip")
    assert found(table_anew) == ["first"] * 3
    assert Table.open(table_anew.uri).metadata.latest_snapshot_id() == 2


def test_a_batch_that_died_before_its_commit_is_finished_as_it_was(
    table_anew: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lakeidx.batch.upsert.finish_batch", dies)
        with pytest.raises(KeyboardInterrupt):
            batch(table_anew, "first")
    assert found(table_anew) == ["before"]
    batch(table_anew, "second", replay="skip")
    assert found(table_anew) == ["first"] * 3


def test_a_batch_that_was_rolled_back_takes_the_new_rows(table_anew: Table) -> None:
    batch(table_anew, "first")
    roll_back_table(table_anew.metadata, table_anew.schema, snapshot_id=1)
    batch(table_anew, "second", replay="skip")
    assert found(table_anew) == ["second"] * 3


@pytest.mark.parametrize(
    ("options", "says"),
    [({"replay": "yes", "batch-id": "b"}, "replay: write refuse or skip"), ({"replay": "skip"}, "give batch-id, too")],
)
def test_what_does_not_say_what_is_skipped(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        ReadOptions.parse({"path": "/t", **options})


# ``batch_id=""`` drew an id of its own, so that a batch that came again was added twice; other types ended in a TypeError.


@pytest.mark.parametrize("batch_id", ["", 5, b"day", Path("day")])
def test_it_is_refused(tmp_path: Path, batch_id: Any) -> None:
    table = Table.open(make_table(tmp_path).uri)
    given = rows([(1, 1, "a")])
    for write in (table.upsert, table.overwrite):
        with pytest.raises(InvalidInputError, match="batch id"):
            write(given, batch_id=batch_id)
    with pytest.raises(InvalidInputError, match="batch id"):
        table.upsert_files([], batch_id=batch_id)
    assert table.snapshot is None


# A store that does not answer once the snapshot, or the tag, is there: the batch is committed, and the tag is made.

WRITES = ("put", "put_if_absent", "delete")
OPTIONS = [{}, {"tag.automatic-creation": "batch"}, {"index.type": "state"}]


def lost(verb: str) -> LakeIdxError:
    """Return what a store of objects raises when it does not answer."""
    if verb == "put_if_absent":
        return CommitUnknownError("the answer was lost")
    return UnavailableError("the store did not answer")


def calls_after_the_snapshot(folder: Path, options: dict[str, str]) -> tuple[int, list[str]]:
    """Return how many writes a batch makes up to its snapshot, and the verbs of those after it."""
    table = make_table(folder, options=options)
    store = FaultStore(table.store)
    upsert(Table(store, table.paths), [(1, 1, "a")])
    writes = [(verb, path) for verb, path in store.calls if verb in WRITES]
    at = next(i for i, (verb, path) in enumerate(writes) if verb == "put_if_absent" and "/snapshot/snapshot-" in path)
    return at + 1, [verb for verb, _ in writes[at + 1 :]]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: next(iter(o.values()), "plain"))
def test_a_batch_whose_snapshot_stands_is_committed(
    tmp_path: Path, options: dict[str, str], when: Literal["before", "after"]
) -> None:
    before, verbs = calls_after_the_snapshot(tmp_path / "counted", options)
    assert verbs
    for number, verb in enumerate(verbs):
        table = make_table(tmp_path / str(number), options=options)
        store = FaultStore(table.store)
        fault = store.fail(WRITES, when=when, error=lost(verb), skip=before + number)
        result = upsert(Table(store, table.paths), [(1, 1, "a")], batch_id="b")
        assert fault.hits == 1
        assert result.commit.snapshot_ids == (1,)
        # The same batch comes again, and once more with a store that answers.
        for _ in range(2):
            assert upsert(Table.open(table.uri), [(1, 1, "a")], batch_id="b").commit.already
        upsert(Table.open(table.uri), [(1, 2, "b")])
        assert content(Table.open(table.uri)) == {(1, 1): "a", (1, 2): "b"}
        assert Table.open(table.uri).verify().passed


def test_a_tag_whose_answer_was_lost_is_made(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/tag/", when="after", error=lost("put_if_absent"))
    assert Table(store, table.paths).create_tag("v1").snapshot == 1
    assert [t["tag"] for t in Table.open(table.uri).tags()] == ["v1"]
    # Another one's tag is not ours, and one that is not there is unknown.
    store.fail("put_if_absent", "/tag/", when="after", error=lost("put_if_absent"))
    with pytest.raises(InvalidInputError, match="exists already"):
        Table(store, table.paths).create_tag("v1", retain="1 d")
    store.fail("put_if_absent", "/tag/", error=lost("put_if_absent"))
    with pytest.raises(CommitUnknownError):
        Table(store, table.paths).create_tag("v2")


# A batch that was refused because an option had changed since it was staged stayed refused for ever under its id.


def test_the_batch_runs_anew_under_its_id(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "2"})
    landing = tmp_path / "rows.csv"
    landing.write_text("p,k,v\n1,1,one\n1,2,two\n")
    context = make_context(table.metadata, "b1")
    ingest_files(context, [str(landing)])
    run_bucket_assignment(context)
    run_index_write(context, 1)
    newer = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.store.put(table.paths.schema_path(1), encode_schema(newer))
    with pytest.raises(CommitConflictError, match=r"option 'bucket' changed from '2' to '4' .* run it again"):
        commit_batch(context)
    assert content(Table.open(table.uri)) == {}
    again = upsert_files(make_context(Table.open(table.uri).metadata, "b1"), [str(landing)])
    assert not again.already
    assert content(Table.open(table.uri)) == {(1, 1): "one", (1, 2): "two"}
    assert upsert_files(make_context(Table.open(table.uri).metadata, "b1"), [str(landing)]).already


# A batch id whose rows came again after a column was added was refused as other content, though nothing in them had changed.


def test_the_same_rows_count_once(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")], batch_id="b")
    add_column(Path(table.uri), "more")
    table = Table.open(table.uri)
    assert upsert(table, [(1, 1, "a")], batch_id="b").already
    assert table.metadata.snapshot_ids() == [1]
    with pytest.raises(InvalidInputError, match="other content"):
        upsert(table, [(1, 1, "a"), (1, 2, "b")], batch_id="b")
    assert content(table) == {(1, 1): "a"}
