"""Batches that others overtake, and what is gone by then."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, CommitReport
from lakeidx.batch.context import make_context
from lakeidx.batch.key_state import index
from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.batch.key_state.load import run_load
from lakeidx.batch.key_state.state_table import StateTables
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, write_attempt
from lakeidx.cli.main import app
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CommitConflictError, CommitUnknownError, InvalidInputError, NotFoundError, RejectedRowsError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.table.commit.compaction_conflicts import key_reader
from lakeidx.table.commit.manifest_write import partition_stats
from lakeidx.table.view import decode_row, split_arity  # type: ignore[attr-defined]
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore, When
from lakeidx.types import parse_type
from tests.kit.shared_table.foreign import remove_orphans
from tests.kit.small_tables import SPEC, content, filled_table, keep_newest, make_table, rows, table_spec, upsert
from tests.unit.batch.key_state.test_index import ROWS, check, commit_rows
from tests.unit.key_index.fake_table import FakeTable

# A batch ended between an alteration's look at the table and its put of the new schema: rows were hidden, nulls stood in NOT NULL.
#
# With ``merge-engine`` set to first-row before the first snapshot, the rows of a batch that was acknowledged in between could not
# be seen any more.

FIELDS = [{"name": "id", "type": "BIGINT"}, {"name": "n", "type": "INT"}]
ROWS_ALTERED: list[dict[str, int | None]] = [{"id": 2, "n": None}, {"id": 3, "n": 3}]


def make(folder: Path, **options: str) -> lakeidx.Table:
    spec = {"fields": FIELDS, "primaryKeys": ["id"], "options": {"bucket": "-1", **options}}
    return lakeidx.Table.create(f"{folder}/wh/d.db/t", spec)


def rows_altered(values: list[dict[str, int | None]]) -> pa.Table:
    return pa.Table.from_pylist(values, pa.schema([("id", pa.int64()), ("n", pa.int32())]))


def content_altered(table: lakeidx.Table) -> list[dict[str, int | None]]:
    return sorted(lakeidx.Table.open(table.uri).scan().to_arrow().to_pylist(), key=lambda r: r["id"])


def handle_with_faults(table: lakeidx.Table) -> tuple[Table, FaultStore]:
    handle = Table.open(table.uri)
    store = FaultStore(handle.store)
    return Table(store, handle.metadata.paths), store


@pytest.mark.parametrize("edits", [{"set": {"merge-engine": "first-row"}}, {"set": {"bucket": "2"}}])
def test_the_first_batch_ends_before_options_of_an_empty_table_are_put(
    tmp_path: Path, edits: dict[str, object]
) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows_altered(ROWS_ALTERED)), times=1)
    with pytest.raises(InvalidInputError, match="cannot change"):
        alter_table(handle, SchemaEdits(**edits))  # type: ignore[arg-type]
    assert content_altered(table) == ROWS_ALTERED
    assert lakeidx.Table.open(table.uri).schema.options == {"bucket": "-1"}
    table.upsert(rows_altered([{"id": 3, "n": 4}]))
    assert content_altered(table) == [ROWS_ALTERED[0], {"id": 3, "n": 4}]


def test_nulls_come_in_before_a_column_becomes_not_null(tmp_path: Path) -> None:
    table = make(tmp_path, **{"alter-column-null-to-not-null.disabled": "false"})
    table.upsert(rows_altered([{"id": 1, "n": 1}]))
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows_altered(ROWS_ALTERED)), times=1)
    with pytest.raises(InvalidInputError, match="has rows with null"):
        alter_table(handle, SchemaEdits(nullable={"n": False}))
    now = lakeidx.Table.open(table.uri).schema
    assert (now.id, now.field("n").type.nullable) == (2, True)
    assert content_altered(table) == [{"id": 1, "n": 1}, *ROWS_ALTERED]


def test_a_batch_that_is_about_to_be_committed_stays_what_it_was_written_for(tmp_path: Path) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    context = make_context(Table.open(table.uri).metadata, "b1")

    def stage(verb: str, path: str) -> None:
        ingest_rows(context, rows_altered(ROWS_ALTERED))
        run_bucket_assignment(context, context.files.latest_attempt())
        write_attempt(context, context.files.latest_attempt())

    store.fail("put_if_absent", "/schema-1", act=stage, times=1)
    with pytest.raises(InvalidInputError, match="batch 'b1' is staged with the schema before this change"):
        alter_table(handle, SchemaEdits(set={"merge-engine": "first-row"}))
    commit_batch(context)
    assert content_altered(table) == ROWS_ALTERED


def test_an_alteration_that_no_batch_could_be_broken_by_stays(tmp_path: Path) -> None:
    table = make(tmp_path)
    handle, store = handle_with_faults(table)
    store.fail("put_if_absent", "/schema-1", act=lambda verb, path: table.upsert(rows_altered(ROWS_ALTERED)), times=1)
    assert alter_table(handle, SchemaEdits(add={"more": "INT"})).after == 1
    assert content_altered(table) == [{**r, "more": None} for r in ROWS_ALTERED]


# A batch that is held up while others put newer key states plans again; it ended in "no such file" of a state of its own.


@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
def test_a_state_whose_files_went(tmp_path: Path, is_global: bool) -> None:
    table, held_up, other = (
        FakeTable(tmp_path / "t"),
        StateKeyIndex(is_global=is_global),
        StateKeyIndex(is_global=is_global),
    )
    commit_rows(table, held_up, [("a", (1,))], {})
    early = table.snapshot_id
    # So many that the files of the first one are merged, and go.
    for n in range(12):
        commit_rows(table, other, [("a", (n,))], {})
    table.snapshot_id, now = early, table.snapshot_id
    with pytest.raises(CommitConflictError, match="plan it again"):
        held_up.tag(table.batch(ROWS), table.context({}))
    table.snapshot_id = now
    check(table, ROWS, held_up, {})


def test_files_that_others_remove_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, held_up = FakeTable(tmp_path / "t"), StateKeyIndex(is_global=True)
    table.write("a", 0, [((k,), 0) for k in range(5)])
    table.commit()
    put = StateTables.upkeep

    def others_follow(self: StateTables, *args: Any, **more: Any) -> Any:
        made = put(self, *args, **more)
        for file in tmp_path.rglob("_index/state/*/bucket-*/data-*"):
            file.unlink()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(StateTables, "upkeep", others_follow)
        with pytest.raises(CommitConflictError, match="plan the batch again"):
            held_up.tag(table.batch(ROWS), table.context({}))
    check(table, ROWS, StateKeyIndex(is_global=True), {})


# A data frame whose write another alteration overtook was staged again under the new columns, which became null without a word.
#
# The same frame under a batch id that was committed is no new write: it is not asked for columns that the table has got since.
# After a rollback it is one again.

ROWS_ADDED = pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([1, 2], pa.int32()), "city": ["Bern", "Oslo"]})


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = lakeidx.Table.create(f"{tmp_path}/d.db/t", table_spec("id INT, n INT", ["id"], options={"bucket": "1"}))
    made.upsert([{"id": 1, "n": 10}])
    return made


def write(table: lakeidx.Table, rows: pa.Table, between: Callable[[], object] = lambda: None, **given: str) -> None:
    """Write a data frame as Spark does: one task, then the commit; something else happens before that."""
    options = {k.replace("_", "-"): v for k, v in given.items()}
    writer = TableWriter(ReadOptions.parse({"path": table.uri, **options}), rows.schema, overwrite=False)
    message = writer.write(iter(rows.to_batches()))
    between()
    writer.commit([message])


def rows_of(table: lakeidx.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = lakeidx.Table.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()
    return found


def add_and_fill(table: lakeidx.Table) -> None:
    table.alter(add={"level": "INT"})
    lakeidx.Table.open(table.uri).upsert([{"id": 1, "n": 10, "level": 7}])


def test_columns_that_were_added_meanwhile_are_not_set_to_null(table: lakeidx.Table) -> None:
    with pytest.raises(InvalidInputError, match="rows lack the columns level, and null would overwrite"):
        write(table, ROWS_ADDED, lambda: add_and_fill(table), mergeSchema="true")
    # The refused batch has put no column of its own.
    assert rows_of(table) == [{"id": 1, "n": 10, "level": 7}]
    write(table, ROWS_ADDED, lambda: table.alter(add={"other": "INT"}), mergeSchema="true", missing="null")
    assert rows_of(table)[0] == {"id": 1, "n": 1, "level": None, "other": None, "city": "Bern"}


def test_deletes_need_no_more_than_their_keys(table: lakeidx.Table) -> None:
    deletes = ROWS_ADDED.append_column("_kind", pa.array(["-D", "-D"]))
    write(table, deletes, lambda: add_and_fill(table), mergeSchema="true")
    assert rows_of(table) == []
    upserts = ROWS_ADDED.append_column("_kind", pa.array(["-D", "+U"])).append_column("new", pa.array([1, 2]))
    full = upserts.append_column("level", pa.array([1, 2], pa.int32()))
    with pytest.raises(InvalidInputError, match="rows lack the columns more"):
        write(table, full, lambda: table.alter(add={"more": "INT"}), mergeSchema="true")


def test_a_frame_that_comes_again_is_not_asked_for_columns_of_later(table: lakeidx.Table) -> None:
    frame = ROWS_ADDED.select(["id", "n"])
    write(table, frame, batch_id="b")
    table.alter(add={"level": "INT"})
    write(table, frame, batch_id="b")
    assert [s["id"] for s in table.snapshots()] == [1, 2]
    table.rollback(snapshot=1)
    with pytest.raises(InvalidInputError, match="rows lack the columns level"):
        write(table, frame, batch_id="b")
    assert rows_of(table) == [{"id": 1, "n": 10, "level": None}]


def test_a_frame_whose_batch_is_rolled_back_while_it_is_written_is_asked(table: lakeidx.Table) -> None:
    frame = ROWS_ADDED.select(["id", "n"])
    write(table, frame, batch_id="b")
    table.alter(add={"level": "INT"})
    with pytest.raises(InvalidInputError, match="rows lack the columns level"):
        write(table, frame, lambda: table.rollback(snapshot=1), batch_id="b")
    assert rows_of(table) == [{"id": 1, "n": 10, "level": None}]


# A batch failed with 'no such file' when the snapshot that it was first assigned on, or was to follow, expired meanwhile.


def test_a_file_that_stays_away_is_an_error(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "first")])
    for manifest in Path(table.uri).glob("manifest/manifest-*"):
        manifest.unlink()
    with pytest.raises(NotFoundError, match="no such file"):
        upsert(Table.open(table.uri), [(1, 1, "second")])


# A batch died while it committed, before its snapshot was put, and was run again days later. A cleaner of another program, which
# knows no staged batches, had removed its files. So it was committed with files that were not there: the table could not be read
# any more. Or, when the snapshot that it was planned on had expired, it was taken for committed: its rows never came.

ROWS_CLEANED = [(1, 1, "second"), (1, 3, "new")]


@pytest.fixture
def table_cleaned(tmp_path: Path) -> Table:
    return filled_table(tmp_path, [(1, 1, "first")])


def die(table: Table, when: When) -> None:
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", when=when, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), ROWS_CLEANED, batch_id="b")


def days_go_by(table: Table, days: int) -> None:
    old = time.time() - days * 86_400
    for path in (Path(table.uri).parents[1] / "_lakeidx").rglob("*.json"):
        os.utime(path, (old, old))


def others_write_and_expire(table: Table) -> None:
    other = Table.open(table.uri)
    upsert(other, [(2, 1, "other")])
    run_compaction(other.metadata, LocalRunner(1), full=True)
    upsert(other, [(2, 2, "other")])
    keep_newest(other)


def test_what_cannot_be_determined_is_reported(table_cleaned: Table) -> None:
    die(table_cleaned, "before")
    days_go_by(table_cleaned, 30)
    others_write_and_expire(table_cleaned)
    remove_orphans(Table.open(table_cleaned.uri))
    rows = {(1, 1): "first", (2, 1): "other", (2, 2): "other"}
    for _ in range(2):
        with pytest.raises(CommitUnknownError, match="cannot determine whether the batch was committed"):
            upsert(Table.open(table_cleaned.uri), ROWS_CLEANED, batch_id="b")
        assert content(Table.open(table_cleaned.uri)) == rows
        # Cleaning of staging does not settle it either.
        clean_staging(table_cleaned.metadata, now_ms=int(time.time() * 1000) + 60 * 86_400_000)
        files = BatchFiles(table_cleaned.store, table_cleaned.paths, "b")
        assert files.was_committing(1)
        assert files.read(CommitReport) is None


@pytest.mark.parametrize(("days", "merged"), [(0, True), (5, False), (5, True)])
def test_a_batch_that_was_committed_is_not_committed_again(tmp_path: Path, days: int, merged: bool) -> None:
    # Until manifests are merged they name the files that a compaction has replaced.
    table = filled_table(tmp_path, [(1, 1, "first")], options={"manifest.merge-min-count": "1" if merged else "100"})
    die(table, "after")
    others_write_and_expire(table)
    days_go_by(table, days)
    if merged and days:
        with pytest.raises(CommitUnknownError, match="cannot determine"):
            upsert(Table.open(table.uri), ROWS_CLEANED, batch_id="b")
    else:
        assert upsert(Table.open(table.uri), ROWS_CLEANED, batch_id="b").already
    found = content(Table.open(table.uri))
    assert found == {(1, 1): "second", (1, 3): "new", (2, 1): "other", (2, 2): "other"}


# A writer that built a key state failed ("the table was dropped") when another one put a newer state meanwhile.


def test_a_state_that_a_newer_one_takes_away_is_a_conflict_and_the_batch_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, options={"index.type": "state", "commit.min-retry-wait": "1 ms"})
    upsert(table, [(1, k, "a") for k in range(6)])
    (folder,) = tmp_path.rglob("_index/state")
    shutil.rmtree(folder)
    others = iter([lambda: upsert(Table.open(table.uri), [(1, k, "b") for k in range(4, 9)])])

    def slow(*given: Any) -> Any:
        stored = run_load(*given)
        # Whoever builds first is overtaken by a whole batch of another program.
        next(others, lambda: None)()
        return stored

    monkeypatch.setattr(index, "run_load", slow)
    upsert(Table.open(table.uri), [(2, k, "c") for k in range(2, 5)])
    # A key lives in one partition at a time: the last batch moves three.
    kept = {(1, k): "a" for k in range(2)} | {(1, k): "b" for k in range(5, 9)} | {(2, k): "c" for k in range(2, 5)}
    assert content(Table.open(table.uri)) == kept


# A batch for another number of buckets was written 21 times before it was refused; float keys at a file's end overlapped.


def test_another_number_of_buckets_is_refused_at_once(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, k, "row") for k in range(8)], options={"bucket": "2"})
    newer = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.store.put(table.paths.schema_path(1), encode_schema(newer))
    manifests = sorted(Path(f"{table.uri}/manifest").iterdir())
    before = len(list(Path(table.uri).rglob("data-*")))
    with pytest.raises(
        InvalidInputError, match="has 2 buckets, the new files were written for 4: overwrite the partition"
    ):
        upsert(Table.open(table.uri), [(1, k, "new") for k in range(8)])
    assert len(list(Path(table.uri).rglob("data-*"))) - before <= 4
    assert sorted(Path(f"{table.uri}/manifest").iterdir()) == manifests
    assert content(Table.open(table.uri)) == {(1, k): "row" for k in range(8)}


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_float_keys_are_ordered_as_they_are_sorted(kind: str) -> None:
    types = [parse_type(kind)]
    read = key_reader(types)
    ordered = [None, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    keys = [read(with_arity(encode_row([v], types), 1)) for v in ordered]
    assert all(a < b for a, b in itertools.pairwise(keys))


def test_partition_statistics_of_not_a_number(tmp_path: Path) -> None:
    types = [parse_type("DOUBLE")]
    partitions = [with_arity(encode_row([v], types), 1) for v in (math.nan, 1.0, -0.0, 0.0)]
    for order in (partitions, partitions[::-1]):
        stats = partition_stats(dict.fromkeys(order, 1), types)
        low, high = (decode_row(split_arity(b)[1], types)[0] for b in (stats.min_values, stats.max_values))
        assert math.copysign(1.0, low) == -1.0
        assert math.isnan(high)


# A batch whose rows were all rejected succeeded, and emptied the table when it overwrote; partitions of none were all.


@pytest.fixture
def table_nothing(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/wh/d.db/t", SPEC)
    made.upsert(rows([(1, 1, "there")]))
    return made


def landing(folder: Path, good: int, bad: int) -> str:
    lines = [f"1,{k},new" for k in range(good)] + ["1,no number,x"] * bad
    path = folder / f"{good}-{bad}.csv"
    path.write_text("\n".join(["p,k,v", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize("arguments", [[], ["--overwrite", "table"], ["--overwrite", "partitions"], ["--strict"]])
def test_a_batch_without_a_good_row_fails(table_nothing: Table, tmp_path: Path, arguments: list[str]) -> None:
    outcome = CliRunner().invoke(
        app, ["upsert", table_nothing.uri, landing(tmp_path, 0, 3), "--no-progress", *arguments]
    )
    assert outcome.exit_code == 1
    assert "3 rows rejected and " in outcome.output
    assert content(table_nothing) == {(1, 1): "there"}
    assert table_nothing.metadata.snapshot_ids() == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "good", "bad", "passes"),
    [("2", 8, 2, True), ("2", 8, 3, False), ("20%", 8, 2, True), ("20%", 7, 2, False), ("5,50%", 1, 2, False),
     ("5,50%", 7, 6, False), ("5,50%", 7, 5, True), ("0", 3, 0, True), ("0", 3, 1, False), (2, 8, 2, True), ("100%", 0, 1, False)],
)  # fmt: skip
def test_rejected_rows_have_a_limit(
    table_nothing: Table, tmp_path: Path, limit: str | int, good: int, bad: int, passes: bool
) -> None:
    file = landing(tmp_path, good, bad)
    if passes:
        assert table_nothing.upsert_files([file], max_rejected=limit).ingest.rows_rejected == bad
        return
    with pytest.raises(RejectedRowsError, match=f"{bad} rows rejected and (the batch may reject|no row is left)"):
        table_nothing.upsert_files([file], max_rejected=limit)
    assert table_nothing.metadata.snapshot_ids() == [1]
    outcome = CliRunner().invoke(
        app, ["upsert", table_nothing.uri, file, "--max-rejected", str(limit), "--no-progress"]
    )
    assert outcome.exit_code == 1


@pytest.mark.parametrize("text", ["", "many", "-1", "101%", "5%%", "1,2,x", "nan%"])
def test_a_limit_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInputError, match="write a number of rows, a share like 5%, or both like 100,5%"):
        RejectLimit.parse(text)


@pytest.mark.parametrize("arguments", [{}, {"batch_id": "b"}])
def test_partitions_of_a_table_without_any_are_not_overwritten(tmp_path: Path, arguments: dict[str, Any]) -> None:
    table = Table.create(f"{tmp_path}/wh/d.db/t", {**SPEC, "primaryKeys": ["k"], "partitionKeys": []})
    table.upsert(rows([(1, 1, "there"), (1, 2, "there")]))
    with pytest.raises(InvalidInputError, match="the table has no partition keys, so all of it would be replaced"):
        table.overwrite(rows([(1, 3, "new")]), **arguments)
    assert len(content(table)) == 2
    table.overwrite(rows([(1, 3, "new")]), whole_table=True, **arguments)
    assert content(table) == {(1, 3): "new"}


# A lookup that stays open over a change of the schema went on in the schema before, until somebody committed.

KEY = pa.table({"k": pa.array([1], pa.int32())})


@pytest.fixture
def table_lookup(tmp_path: Path) -> lakeidx.Table:
    fields = [{"name": n, "type": "INT"} for n in ("k", "a", "b")]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    table.upsert(pa.table({n: pa.array([v], pa.int32()) for n, v in (("k", 1), ("a", 10), ("b", 20))}))
    return table


def test_names_that_changed_places_have_their_values(table_lookup: lakeidx.Table) -> None:
    opened = lakeidx.Table.open(table_lookup.uri)
    assert opened.lookup(KEY).to_pylist() == [{"_FOUND": True, "k": 1, "a": 10, "b": 20}]
    table_lookup.alter(rename={"a": "was_a"})
    table_lookup.alter(rename={"b": "a"})
    table_lookup.alter(rename={"was_a": "b"})
    assert opened.lookup(KEY).to_pylist() == [{"_FOUND": True, "k": 1, "b": 10, "a": 20}]
    table_lookup.alter(types={"a": "BIGINT"}, drop=["b"], add={"c": "STRING"})
    answer = opened.lookup(KEY)
    assert answer.to_pylist() == [{"_FOUND": True, "k": 1, "a": 20, "c": None}]
    assert answer.schema.field("a").type == pa.int64()
    table_lookup.alter(rename={"k": "id"})
    assert opened.lookup(KEY.rename_columns(["id"])).to_pylist() == [{"_FOUND": True, "id": 1, "a": 20, "c": None}]


def test_a_pinned_lookup_keeps_the_schema_of_its_first_answer(table_lookup: lakeidx.Table) -> None:
    pinned = TableLookup(table_lookup.metadata, pinned=True)
    pinned.lookup(KEY)
    table_lookup.alter(drop=["b"])
    assert pinned.lookup(KEY).rows.column_names == ["k", "a", "b"]
