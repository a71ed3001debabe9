"""Deletes that came back, or that were not there for all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import read_reports
from lakeidx.batch.context import make_context
from lakeidx.cli.main import app
from lakeidx.data import write_data_file
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CommitConflictError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.deletion_vector import encode_deletion_vectors
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.landing.read import LandingOptions
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.pipeline_file.batch_checks import check_batch
from lakeidx.quality.result import Severity
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.deletion_vectors import deletion_vectors, read_deletion_vector
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.view import DELETION_VECTORS, data_file_path, load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import SPEC, content, make_table, rows, table_fields, table_spec, upsert
from tests.kit.upserts import upsert_table

# With deletion vectors, readers see level 0 after a compaction; deletes looked only among what they see, and found nothing.
#
# Each verb that reads before it writes takes all that is committed. The model is a dictionary, compared after a full compaction.

OPTIONS: list[Any] = [
    pytest.param({"bucket": "2"}, id="fixed"),
    pytest.param({"bucket": "-1"}, id="dynamic"),
    pytest.param({"bucket": "2", "deletion-vectors.merge-on-read": "true"}, id="merge on read"),
    pytest.param({"bucket": "-1", "changelog-producer": "lookup"}, id="changelog"),
]
Model = dict[int, int | None]


def make(folder: Path, options: dict[str, str]) -> Table:
    spec = table_spec("id INT, v INT", ["id"], options={"deletion-vectors.enabled": "true", **options})
    return Table.create(folder / "d.db" / "t", spec)


def upsert_waiting(table: Table, model: Model, rows: Mapping[int, int | None]) -> None:
    table.upsert([{"id": i, "v": v} for i, v in rows.items()])
    model |= rows


def compacted(table: Table) -> Model:
    table.compact(full=True)
    return {r["id"]: r["v"] for r in Table.open(table.uri).scan().to_arrow().to_pylist()}


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def deleted(table: Table, **what: Any) -> int:
    result = table.delete(**what)
    assert result is not None
    return result.deletes


@pytest.mark.parametrize("options", OPTIONS)
def test_deletes_of_rows_in_level_0(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, options)
    model: Model = {}
    upsert_waiting(table, model, {i: i for i in range(12)})
    assert deleted(table, keys=keys(0, 1, 99), dry_run=True) == 2
    assert deleted(table, keys=keys(0, 1, 99)) == 2
    assert deleted(table, where="v IN (2, 3)", dry_run=True) == 2
    assert deleted(table, where="v IN (2, 3)") == 2
    assert table.delete(keys(0), dry_run=True) is None
    assert compacted(table) == {i: i for i in range(4, 12)}
    # What is there counts, not what readers still see: 4 has another value, 5 and 6 are gone or back.
    model = {i: i for i in range(4, 12)}
    upsert_waiting(table, model, {4: 400, 5: 500, 12: 12})
    assert deleted(table, keys=keys(6, 7)) == 2
    upsert_waiting(table, model, {6: 600})
    assert table.delete(where="v = 4") is None
    assert table.delete(where="v = 7 OR v = 6") is None
    assert deleted(table, where="v >= 500") == 2
    for gone in (7, 5, 6):
        del model[gone]
    assert compacted(table) == model


def test_by_the_command(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.upsert([{"id": i, "v": i} for i in range(4)])
    rows = tmp_path / "keys.jsonl"
    rows.write_text('{"id": 0}\n')
    for arguments in (["--keys", str(rows)], ["--where", "v = 1"]):
        done = CliRunner().invoke(app, ["delete", table.uri, *arguments, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"] == 1
    assert compacted(table) == {2: 2, 3: 3}


def test_rows_are_completed_from_what_is_committed(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.alter(add={"b": "STRING"})
    table.upsert([{"id": 1, "v": 1, "b": "KEEP"}])
    landed = tmp_path / "rows.jsonl"
    landed.write_text('{"id": 1, "v": 2}\n')
    table.upsert_files([landed], LandingOptions(missing="table"))
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": 2, "b": "KEEP"}]


def test_a_column_with_nulls_in_level_0_does_not_become_required(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.upsert([{"id": 1, "v": None}])
    with pytest.raises(InvalidInputError, match="cannot become NOT NULL"):
        table.alter(nullable={"v": False})


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_stream_begins_with_the_rows_that_a_condition_holds_for_now(tmp_path: Path, options: dict[str, str]) -> None:
    """What is newer was left out by its statistics, and the row before it came back."""
    table = make(tmp_path, options)
    table.upsert([{"id": i, "v": 1} for i in range(4)])
    table.compact(full=True)
    table.upsert([{"id": i, "v": 2} for i in range(4)])
    (step,) = table.follow(where="v = 1", mode="delta")
    assert step.changes.to_arrow().num_rows == 0


# Rows that another writer deleted by deletion vector while a compaction ran came back: only file names were compared.

VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, Mapping[str, Any]] = {
    "fixed buckets": {**SPEC, "options": {**VECTORS, "bucket": "1"}},
    "dynamic buckets": {**SPEC, "options": {**VECTORS, "bucket": "-1"}},
    "append table": {**SPEC, "primaryKeys": [], "options": {**VECTORS, "bucket": "-1"}},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/wh/d.db/t", KINDS[request.param])
    for k in range(0, 6, 2):
        upsert(made, [(1, k, "row"), (1, k + 1, "row")])
    if made.schema.primary_keys:
        compact(made)
    return made


def compact(table: Table) -> CompactionReport:
    return run_compaction(table.metadata, LocalRunner(1), full=True, sleep=lambda _: None)


def delete_by_vector(table: Table, key: int) -> None:
    """Delete a key as Java does once the new level-0 file is compacted away: a vector, and the same data files."""
    metadata = Table.open(table.uri).metadata
    schema = metadata.latest_schema()
    view = load_view(metadata, metadata.latest_snapshot())
    entry, position = _find(metadata, view.entries, key)
    marks = {
        name: set(read_deletion_vector(metadata, schema, p, b, v))
        for (p, b, name), v in deletion_vectors(view.index).items()
        if (p, b) == (entry.partition, entry.bucket)
    }
    marks.setdefault(entry.file.file_name, set()).add(position)
    data, ranges = encode_deletion_vectors(marks)
    name = NewFileNames().index_name()
    metadata.store.put(metadata.paths.index_file({"p": 1}, entry.bucket, name), data)
    new = IndexEntry(
        kind=FileKind.ADD, partition=entry.partition, bucket=entry.bucket, index_type=DELETION_VECTORS, file_name=name,
        file_size=len(data), row_count=len(ranges), dv_ranges=tuple(ranges),
    )  # fmt: skip
    old = tuple(replace(e, kind=FileKind.DELETE) for e in view.index if e.index_type == DELETION_VECTORS)
    commit_changes(
        metadata, CommitRequest(commit_user=f"java-{uuid.uuid4()}", changes=TableChanges(append_index=(*old, new)))
    )


def _find(metadata: Any, entries: Any, key: int) -> tuple[ManifestEntry, int]:
    schema = metadata.latest_schema()
    for entry in entries:
        path = data_file_path(metadata, entry)
        found = pa.concat_tables(read_data_file(metadata.store, path, entry.file, schema, schema, ["k"]))
        keys = found.column("k").to_pylist()
        if key in keys:
            return entry, keys.index(key)
    raise AssertionError(f"no key {key}")


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["no vector before", "a vector before"])
def test_deleted_rows_stay_deleted(table: Table, before: bool) -> None:
    expected = {(1, k): "row" for k in range(6)}
    if before:
        delete_by_vector(table, 5)
        del expected[(1, 5)]
    store = FaultStore(table.store)
    fault = store.fail("put_if_absent", "snapshot-", act=lambda *_: delete_by_vector(table, 2))
    if table.schema.primary_keys and not before:
        upsert(table, [(1, 0, "new")])
        expected[(1, 0)] = "new"
    report = compact(Table(store, table.paths))
    del expected[(1, 2)]
    assert (fault.hits, report.rounds) == (1, 2)
    assert content(Table.open(table.uri)) == expected


@pytest.mark.slow
def test_an_index_file_that_is_not_live_is_not_removed(table: Table) -> None:
    delete_by_vector(table, 2)
    metadata = table.metadata
    (old,) = (e for e in load_view(metadata, metadata.latest_snapshot()).index if e.index_type == DELETION_VECTORS)
    delete_by_vector(table, 3)
    gone = replace(old, kind=FileKind.DELETE)
    with pytest.raises(CommitConflictError, match="is no longer live"):
        commit_changes(metadata, CommitRequest(commit_user="u", changes=TableChanges(compact_index=(gone,))))


def test_a_schema_that_changes_during_a_compaction_plans_again(table: Table) -> None:
    delete_by_vector(table, 2)

    def change(verb: str, path: str) -> None:
        newer = replace(table.schema, id=1, options={**table.schema.options, "comment-on": "b"})
        table.store.put(table.paths.schema_path(1), encode_schema(newer))

    store = FaultStore(table.store)
    fault = store.fail("open_output", "bucket-", act=change)
    report = compact(Table(store, table.paths))
    assert (fault.hits, report.rounds) == (1, 2)
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    assert {e.file.schema_id for e in view.entries} == {1}
    assert len(content(Table.open(table.uri))) == 5


# `Table.delete` wrote a column's default in the place of a null of the row it deleted, so a changelog took back another row.


@pytest.mark.parametrize("by", ["where", "keys"])
def test_a_delete_retracts_the_row_that_is_stored(tmp_path: Path, by: str) -> None:
    """The default came after the row, which therefore has null there."""
    options = {"bucket": "1", "changelog-producer": "input"}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", table_spec("k INT, v STRING", ["k"], options=options))
    table.upsert(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    table.alter(add={"n": "INT"}, defaults={"n": "42"})
    keys = pa.table({"k": pa.array([1], pa.int32())})
    assert (table.delete(keys) if by == "keys" else table.delete(where="v = 'a'")) is not None
    row = {"k": 1, "v": "a", "n": None}
    changes = table.changes(0).to_arrow().to_pylist()
    assert [c for c in changes if c["k"] == 1] == [{**row, "_rowkind": "+I"}, {**row, "_rowkind": "-D"}]


# pypaimon says 0 deletes in the manifest entry of every file, whatever rows are in it: scans showed the deleted rows.
#
# Here lakeidx writes such entries. Rows are those of a plain dictionary, by every way of reading, before and after compactions.

TABLES: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1"},
    "across partitions": {"bucket": "-1", "index.type": "state"},
    "partial update": {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "changelog": {"bucket": "2", "changelog-producer": "lookup"},
    "full changelog": {"bucket": "2", "changelog-producer": "full-compaction"},
    "ignored": {"bucket": "2", "ignore-delete": "true"},
    "sequence": {"bucket": "2", "sequence.field": "v"},
}  # fmt: skip


@contextmanager
def no_count() -> Iterator[None]:
    """Write manifest entries as pypaimon does."""

    def meta(**values: Any) -> DataFileMeta:
        return DataFileMeta(**{**values, "delete_row_count": 0})

    with mock.patch.object(write_data_file, "DataFileMeta", meta):
        yield


def content_uncounted(table: Table) -> dict[int, tuple[str, int]]:
    """The rows; every filter, projection and comparison gives the same."""
    rows = {r["id"]: (r["p"], r["v"]) for r in table.scan().to_arrow().to_pylist()}
    for where in ("v >= 0", "id >= 0 AND v < 1000", "p <> 'z'"):
        assert sorted(table.scan(where=where, columns=["id"]).to_arrow().column("id").to_pylist()) == sorted(rows)
    assert sum(t.num_rows for t in table.scan(columns=[]).batches()) == len(rows)
    for key in range(12):
        found = table.scan(where=f"id = {key}").to_arrow().to_pylist()
        assert [(r["p"], r["v"]) for r in found] == ([rows[key]] if key in rows else [])
    return rows


def make_uncounted(folder: Path, name: str) -> tuple[Table, dict[int, tuple[str, int]]]:
    keys = ["id"] if name == "across partitions" else ["id", "p"]
    fields = table_fields("id INT NOT NULL, p STRING NOT NULL, v INT")
    spec = {"fields": fields, "primaryKeys": keys, "partitionKeys": ["p"], "options": TABLES[name]}
    return Table.create(folder / "d.db" / "t", spec), {}


def write(table: Table, model: dict[int, tuple[str, int]], *rows: tuple[int, str, int, str]) -> None:
    with no_count():
        table.upsert([{"id": i, "p": p, "v": v, "_kind": kind} for i, p, v, kind in rows])
    for i, p, v, kind in rows:
        if kind != "-D":
            model[i] = (p, v)
        elif table.schema.options.get("ignore-delete") is None:
            model.pop(i, None)


@pytest.mark.parametrize("name", TABLES)
def test_rows_go_by_their_kind(tmp_path: Path, name: str) -> None:
    table, model = make_uncounted(tmp_path, name)
    write(table, model, *((i, "a", i, "+I") for i in range(8)))
    # A file by itself, whose deletes meet nothing; and one that lies over the first.
    write(table, model, (9, "b", 9, "+I"), (10, "b", 10, "-D"))
    write(table, model, (1, "a", 101, "-D"), (2, "a", 102, "+U"), (8, "a", 108, "+I"))
    table = Table.open(table.uri)
    assert content_uncounted(table) == model
    rule = next(r for r in table.verify().results if r.name == "deletes_counted")
    ignored = "ignore-delete" in TABLES[name]
    assert rule.passed == ignored
    assert ignored or {s["deletes"] for s in rule.sample} == {1}
    assert rule.severity is Severity.WARN
    # Keys that came and went, and one that changes its partition where that may be.
    write(table, model, (1, "a", 201, "+I"), (2, "a", 202, "-D"))
    if name == "across partitions":
        write(table, model, (3, "b", 203, "+I"), (9, "b", 209, "-D"))
        write(table, model, (9, "a", 210, "+I"))
    assert content_uncounted(Table.open(table.uri)) == model
    for full in (False, True):
        with no_count():
            Table.open(table.uri).compact(full=full)
        assert content_uncounted(Table.open(table.uri)) == model
    table.compact(full=True)
    assert next(r for r in Table.open(table.uri).verify().results if r.name == "deletes_counted").passed
    write(table, model, (1, "a", 301, "+I"), (4, "a", 301, "-D"))
    assert content_uncounted(Table.open(table.uri)) == model


def test_a_file_alone_is_not_moved_to_the_top_with_its_deletes(tmp_path: Path) -> None:
    table, model = make_uncounted(tmp_path, "fixed")
    write(table, model, (1, "a", 1, "+I"), (2, "a", 2, "-D"), (3, "a", 3, "-D"))
    table.compact(full=True)
    assert content_uncounted(Table.open(table.uri)) == model == {1: ("a", 1)}
    assert [r["rows"] for r in table.files() if r["level"]] == [1]


def test_the_difference_of_two_states(tmp_path: Path) -> None:
    table, model = make_uncounted(tmp_path, "fixed")
    write(table, model, *((i, "a", i, "+I") for i in range(4)))
    write(table, model, (1, "a", 0, "-D"), (2, "a", 22, "+U"))
    found = table.diff(1, 2).to_arrow().to_pylist()
    assert [(r[ROW_KIND], r["id"], r["v"]) for r in found] == [("-D", 1, 1), ("-U", 2, 2), ("+U", 2, 22)]


# With `rowkind.field` the delete of a key that moved to another partition was written as an insert: the key was there twice.

FIELDS = table_fields("k INT, p INT, v STRING, op STRING")
Row = tuple[int, int, str, str | None]


def table_of(folder: Path, name: str = "t", *, cross: bool = False, **options: str) -> lakeidx.Table:
    spec: dict[str, Any] = table_spec(
        FIELDS,
        ["k"],
        partitions=["p"] if cross else [],
        options={"bucket": "-1", "rowkind.field": "op", **{k.replace("_", "-"): v for k, v in options.items()}},
    )
    return lakeidx.Table.create(f"{folder}/wh/d.db/{name}", spec)


def rows_moves(*values: Row) -> pa.Table:
    types = [pa.int32(), pa.int32(), pa.string(), pa.string()]
    names = [f["name"] for f in FIELDS]
    return pa.table([pa.array(c, t) for c, t in zip(zip(*values, strict=True), types, strict=True)], names)


def seen(table: lakeidx.Table) -> list[Row]:
    return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())


def test_a_key_that_moves_is_there_once(tmp_path: Path) -> None:
    table = table_of(tmp_path, cross=True)
    table.upsert(rows_moves((1, 1, "a", "+I"), (2, 1, "b", "+U")))
    table.upsert(rows_moves((1, 2, "a2", "+I")))
    assert seen(table) == [(1, 2, "a2", "+I"), (2, 1, "b", "+U")]
    result = table.upsert(rows_moves((1, 7, "", "-D"), (2, 1, "c", "+u")))
    assert seen(table) == [(2, 1, "c", "+u")]
    assert (result.assign.deletes, result.assign.updates) == (1, 1)


@pytest.mark.parametrize("how", ["keys", "where"])
def test_rows_are_deleted_by_key_and_by_condition(tmp_path: Path, how: str) -> None:
    table = table_of(tmp_path)
    table.upsert(rows_moves((1, 1, "a", "+I"), (2, 1, "b", "+I")))
    table.delete(
        pa.table({"k": pa.array([1], pa.int32())}) if how == "keys" else None, where="k = 1" if how == "where" else None
    )
    assert seen(table) == [(2, 1, "b", "+I")]


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_delete_in_another_table_is_one_here(tmp_path: Path, producer: str) -> None:
    source, target = table_of(tmp_path, "s", changelog_producer=producer), table_of(tmp_path)
    source.upsert(rows_moves((1, 1, "a", "+I"), (2, 1, "b", "+I")))
    source.upsert(rows_moves((1, 1, "a", "-D"), (2, 1, "c", "+U")))
    for step in source.follow(mode="derived"):
        target.upsert_changes(step)
    assert seen(source) == seen(target) == [(2, 1, "c", "+U")]


def test_a_row_without_a_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'op' must hold one of \+I, -U, \+U, -D, not null \(row 1\)"):
        table_of(tmp_path).upsert(rows_moves((1, 1, "a", "+I"), (2, 1, "b", None)))


# Overwriting a table with deletion vectors, or a first-row table, emptied it for readers until somebody compacted.

HIDING = {"deletion vectors": {"deletion-vectors.enabled": "true"}, "first-row": {"merge-engine": "first-row"}}


def levels(table: Table) -> set[int]:
    return {e.file.level for e in load_view(table.metadata, table.metadata.latest_snapshot()).entries}


@pytest.fixture(params=HIDING)
def table_overwritten(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={**HIDING[request.param], "bucket": "2"})
    upsert(made, [(1, k, "old") for k in range(4)] + [(2, 1, "kept")])
    run_compaction(made.metadata, LocalRunner(1), full=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["partitions", "table"])
def test_new_rows_are_seen_at_once(table_overwritten: Table, mode: str) -> None:
    context = make_context(table_overwritten.metadata, "b", overwrite=mode)
    upsert_table(context, rows([(1, k, "new") for k in range(2, 6)]))
    expected = {(1, k): "new" for k in range(2, 6)} | ({(2, 1): "kept"} if mode == "partitions" else {})
    assert content(table_overwritten) == expected
    assert levels(table_overwritten) == {table_overwritten.schema.table_options.max_levels - 1}
    assert [r.passed for r in check_batch(table_overwritten.metadata, read_reports(context.files))] == [True, True]
    upsert(table_overwritten, [(1, 3, "later"), (1, 9, "later")])
    run_compaction(table_overwritten.metadata, LocalRunner(1), full=True)
    first_row = table_overwritten.schema.table_options.merge_engine == "first-row"
    assert content(table_overwritten) == expected | {(1, 3): "new" if first_row else "later", (1, 9): "later"}


def test_files_that_overlap_stay(table_overwritten: Table, caplog: pytest.LogCaptureFixture) -> None:
    from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
    from lakeidx.batch.stages.given_rows import stage_table
    from lakeidx.batch.stages.index_write import run_index_write
    from lakeidx.batch.upsert import commit_batch

    context = make_context(table_overwritten.metadata, "b", overwrite="table")
    stage_table(context.files, table_overwritten.schema, rows([(1, k, "new") for k in range(4)] * 2))
    run_bucket_assignment(context, 1)
    run_index_write(context, 1, budget_bytes=1)
    commit_batch(context)
    assert 0 in levels(table_overwritten) or content(table_overwritten) == {(1, k): "new" for k in range(4)}
    run_compaction(table_overwritten.metadata, LocalRunner(1), full=True)
    assert content(table_overwritten) == {(1, k): "new" for k in range(4)}


def test_the_option_turns_it_off(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"overwrite-upgrade": "false", "bucket": "2"})
    upsert(table, [(1, k, "new") for k in range(4)], overwrite="table")
    assert levels(table) == {0}


def test_files_with_deletes_stay(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "1"})
    values = [(1, 1, "a"), (1, 2, "b")]
    upsert_table(make_context(table.metadata, "b", overwrite="table"), rows(values, ["+I", "-D"]))
    assert levels(table) == {0}
    assert content(table) == {(1, 1): "a"}
