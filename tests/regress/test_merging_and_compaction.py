"""Rows that merging does not take, and compactions that kept or lost some."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx import Table
from lakeidx.batch.index_types import index_folder
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.cli.main import app
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.landing.types import LandingOptions
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.maintenance.ring_resize import run_ring_resize
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.tasks.runner import LocalRunner
from tests.kit.index_history import LOCAL_TYPES, IndexedTable, Model, Row, apply, fixed_history
from tests.kit.small_tables import filled_table, table_spec, upsert
from tests.kit.untaken_cases import CASES, FIRST_ROW, PARTIAL, ROW, Case, folded, table_of

# A -D or -U in a table whose merge engine does not take it was committed, and its key could not be read any more.

RowKinds = dict[str, Any]
Door = Callable[[lakeidx.Table, Path, list[RowKinds], str], Any]
OTHER: RowKinds = {"id": 7, "a": "y", "n": 1, "p": 1}
TYPES = {"id": pa.int32(), "a": pa.string(), "n": pa.int32(), "p": pa.int32(), "_kind": pa.string()}


def make(folder: Path, case: Case) -> lakeidx.Table:
    table = lakeidx.Table.create(f"{folder}/d.db/t", table_of(case))
    table.upsert([{**ROW, **case.row}, OTHER])
    return table


def by_files(table: lakeidx.Table, folder: Path, rows: list[RowKinds], on_delete: str) -> Any:
    file = folder / "f.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    result = table.upsert_files([str(file)], LandingOptions(on_delete=on_delete))
    if result.ingest.rows_rejected:
        raise InvalidInputError(read_rejected(table.store, str(result.ingest.rejected_path))["reason"][0].as_py())
    return result


def by_list(table: lakeidx.Table, folder: Path, rows: list[RowKinds], on_delete: str) -> Any:
    return table.upsert(rows, on_delete=on_delete)


def by_spark(table: lakeidx.Table, folder: Path, rows: list[RowKinds], on_delete: str) -> Any:
    frame = pa.table({n: pa.array([r[n] for r in rows], t) for n, t in TYPES.items()})
    writer = TableWriter(ReadOptions.parse({"path": table.uri, "on-delete": on_delete}), frame.schema, overwrite=False)
    from lakeidx.tasks.runner import LocalRunner

    return writer.finish([writer.write(iter(frame.to_batches()))], LocalRunner(1))


DOORS = {"files": by_files, "list": by_list, "spark": by_spark}


def rows_of(table: lakeidx.Table) -> list[RowKinds]:
    """All rows, read and compacted, which fails for a key that cannot be merged."""
    fresh = lakeidx.Table.open(table.uri)
    fresh.scan().to_arrow()
    fresh.compact(full=True)
    assert fresh.verify().passed
    found: list[RowKinds] = lakeidx.Table.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("door", ["files", "list"])
def test_what_the_engine_does_not_take_is_rejected_and_the_rest_is_written(
    tmp_path: Path, name: str, kind: str, door: str
) -> None:
    case = CASES[name]
    table = make(tmp_path, case)
    before = rows_of(table)
    rows = [{**OTHER, "id": 8, "_kind": "+I"}, {**ROW, **case.row, "_kind": kind}]
    if kind in case.refused:
        with pytest.raises(InvalidInputError, match=f"kind: {kind}: ") as refused:
            DOORS[door](table, tmp_path, rows, "apply")
        assert "\n" not in str(refused.value)
        assert rows_of(table) == before + ([{**OTHER, "id": 8}] if door == "files" else [])
        return
    DOORS[door](table, tmp_path, rows, "apply")
    assert [r["id"] for r in rows_of(table) if r["id"] > 1] == [7, 8]


@pytest.mark.parametrize("door", DOORS)
def test_words_for_deletes_are_the_same_at_every_door(tmp_path: Path, door: str) -> None:
    rows: list[RowKinds] = [{**ROW, "_kind": "-U"}, {**ROW, "n": 5, "_kind": "+U"}, {**OTHER, "_kind": "-D"}]
    for options, action, left in (
        ({}, "apply", [{**ROW, "n": 5}]),
        ({}, "ignore", [{**ROW, "n": 5}, OTHER]),
        ({}, "remove", [{**ROW, "n": 5}]),
        ({}, "-D=ignore", [{**ROW, "n": 5}, OTHER]),
        (PARTIAL, "ignore", [{**ROW, "n": 5}, OTHER]),
        (FIRST_ROW, "-U=ignore,-D=ignore", [dict(ROW), OTHER]),
        ({**PARTIAL, "partial-update.remove-record-on-delete": "true"}, "remove", [{**ROW, "n": 5}]),
        (folded("max", **{"aggregation.remove-record-on-delete": "true"}), "-D=remove,-U=ignore", [{**ROW, "n": 5}]),
    ):
        table = make(tmp_path / f"{len(list(tmp_path.iterdir()))}", Case(options))
        result = DOORS[door](table, tmp_path, rows, action)
        assert rows_of(table) == left
        ignored = {"ignore": 2, "-D=ignore": 1, "-U=ignore,-D=ignore": 2, "-D=remove,-U=ignore": 1}.get(action, 0)
        assert (result.ingest.rows_ignored, result.as_dict()["ignored"]) == (ignored, ignored)
    with pytest.raises(InvalidInputError, match=r"kind: rows of kind -U are rejected \(on_delete\)"):
        DOORS[door](table, tmp_path, rows, "reject")
    for wrong in ("drop", "-U=remove", "+I=ignore", "-D"):
        with pytest.raises(InvalidInputError, match="on_delete is one of apply, reject, ignore, remove"):
            DOORS[door](table, tmp_path, rows, wrong)


def test_a_batch_of_ignored_rows_alone_does_nothing_and_comes_again(tmp_path: Path) -> None:
    table = make(tmp_path, Case(PARTIAL))
    deletes = [{**ROW, "_kind": "-D"}]
    for again in (False, True):
        result = table.upsert(deletes, on_delete="ignore", batch_id="b")
        assert (result.already, result.ingest.rows_ignored) == (again, 1)
    assert rows_of(table) == [dict(ROW), OTHER]
    with pytest.raises(InvalidInputError, match="kind: -D: merge engine partial-update does not accept rows"):
        table.upsert(deletes)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (PARTIAL, "with option 'partial-update.remove-record-on-delete' = true alone, to be set before the first rows"),
        (folded("sum"), "'aggregation.remove-record-on-delete' = true alone"),
        (FIRST_ROW, "first-row keeps the first row"),
        ({"ignore-delete": "true"}, "lets deletes change nothing"),
    ],
)
def test_a_table_that_does_not_remove_rows_says_so_at_once(tmp_path: Path, options: dict[str, str], why: str) -> None:
    table = make(tmp_path, Case(options))
    for door in DOORS.values():
        with pytest.raises(InvalidInputError, match=f"on_delete = remove: .*{why}"):
            door(table, tmp_path, [{**OTHER, "_kind": "+I"}], "remove")


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_kinds_in_a_column_of_the_table(tmp_path: Path, kind: str) -> None:
    """Also of a Parquet file that would be staged as it is."""
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", table_of(Case({**PARTIAL, "rowkind.field": "a"})))
    table.upsert([{**ROW, "a": "+I"}, {**OTHER, "a": "+I"}])
    file = tmp_path / "f.parquet"
    rows = [{**ROW, "a": kind}, {**ROW, "id": 5, "a": "+u"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema), file)
    result = table.upsert_files([str(file)])
    assert result.ingest.rows_rejected == 1
    assert [r["id"] for r in rows_of(table)] == [1, 5, 7]
    assert table.upsert_files([str(file)], LandingOptions(on_delete="ignore")).ingest.rows_ignored == 1


def test_messages_of_a_database(tmp_path: Path) -> None:
    """A delete into a table that does not take it; a change of key is rejected with its delete, or without it applied."""
    table = make(tmp_path, Case(PARTIAL))
    messages = [
        {"op": "u", "before": dict(ROW), "after": {**ROW, "id": 4}},
        {"op": "d", "before": dict(OTHER), "after": None},
        {"op": "c", "before": None, "after": {**OTHER, "id": 9}},
    ]
    file = tmp_path / "f.json"
    file.write_text("".join(json.dumps(m) + "\n" for m in messages))
    command = ["upsert", table.uri, str(file), "--format", "debezium"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "line 2: kind: -D: merge engine partial-update does not accept rows of kind -U or -D" in done.stderr
    assert [r["id"] for r in rows_of(table)] == [1, 7, 9]
    assert CliRunner().invoke(app, [*command, "--on-delete", "ignore"]).exit_code == 0
    assert [r["id"] for r in rows_of(table)] == [1, 4, 7, 9]
    refused = CliRunner().invoke(app, [*command, "--on-delete", "-D=reject", "--on-delete", "-U=ignore", "--strict"])
    assert refused.exit_code == 1
    assert "rows of kind -D are rejected (on_delete)" in refused.stderr


def test_a_copy_that_does_not_take_deletes(tmp_path: Path) -> None:
    source = make(tmp_path / "a", Case({}))
    source.delete(where="id = 7")
    copy = lakeidx.Table.create(f"{tmp_path}/b/d.db/t", table_of(Case(PARTIAL)))
    command = ["tail", source.uri, "--into", copy.uri, "--consumer", "c", "--from", "earliest"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "kind: -D: merge engine partial-update" in refused.output
    assert CliRunner().invoke(app, [*command, "--on-delete", "ignore"]).exit_code == 0
    assert [r["id"] for r in rows_of(copy)] == [1, 7]
    assert "--on-delete is for --into" in CliRunner().invoke(app, ["tail", source.uri, "--on-delete", "ignore"]).output


PIPELINE = """
table: shop.t
warehouse: {0}/lake
landing: {{ path: {0}/landing, on_delete: {1} }}
fields: [{{ name: id, type: INT }}, {{ name: n, type: INT }}]
primaryKeys: [id]
options: {{ bucket: 1, merge-engine: {2} }}
"""


def test_pipeline_files(tmp_path: Path) -> None:
    """With remove the table gets the option by which it removes rows."""
    config = parse_pipeline(PIPELINE.format(tmp_path, "{-D: remove, -U: ignore}", "partial-update"), path="p.yaml")
    table = lakeidx.Table.create(config.uri, config.spec())
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    file = tmp_path / "f.jsonl"
    file.write_text('{"id": 1, "n": 1, "_kind": "-D"}\n{"id": 2, "n": 2, "_kind": "-U"}\n')
    result = table.upsert_files([str(file)], config.landing_options())
    assert (result.ingest.rows_rejected, result.ingest.rows_ignored) == (0, 1)
    assert rows_of(table) == [{"id": 2, "n": 2}]
    for word, engine, why in (
        ("remove", "first-row", "first-row keeps the first row"),
        ("drop", "deduplicate", "on_delete"),
        ("{-U: remove}", "deduplicate", "only -D removes"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            parse_pipeline(PIPELINE.format(tmp_path, word, engine), path="p.yaml")


def test_append_tables_have_nothing_to_take_away(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "INT"}]
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "options": {"bucket": "-1"}})
    file = tmp_path / "f.jsonl"
    file.write_text('{"id": 1}\n{"id": 1, "_kind": "-D"}\n')
    assert table.upsert_files([str(file)]).ingest.reject_reasons == {"kind": 1}
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    file.write_text('{"id": 1, "_kind": "-D"}\n')
    with pytest.raises(RejectedRowsError, match="kind: -D: an append table has no keys"):
        table.upsert_files([str(file)])


# `verify` names rows of kinds that the merge engine does not take, which earlier releases landed, and what to set.

ENGINES = {
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "max": {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
    "first_value": {"merge-engine": "aggregation", "fields.v.aggregate-function": "first_value"},
}


def with_options(uri: str, options: dict[str, str]) -> None:
    path = Path(uri) / "schema/schema-0"
    schema = json.loads(path.read_text(encoding="utf-8"))
    schema["options"] |= options
    path.write_text(json.dumps(schema), encoding="utf-8")


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_the_file_and_the_option_are_named(tmp_path: Path, name: str, kind: str) -> None:
    table = filled_table(tmp_path, [(1, 1, "a"), (1, 2, "b")])
    upsert(table, [(1, 1, "a")], [kind])
    with_options(table.uri, ENGINES[name])
    (found,) = [r for r in Table.open(table.uri).verify().findings if r.name == "files_readable"]
    assert "1 rows of kind -U or -D, which the table cannot merge" in str(found.sample[0]["fault"])
    assert "ignore-" in str(found.sample[0]["fault"])
    assert "/data-" in str(found.sample[0]["file"])
    # The way out that it names.
    with_options(table.uri, {"ignore-delete": "true"})
    assert [r for r in Table.open(table.uri).verify().findings if r.name == "files_readable"] == []


# A compaction that took rows from lookup files failed when the texts of the new rows repeated: these were dictionaries.


def test_repeating_texts_beside_lookup_files(tmp_path: Path) -> None:
    spec = {
        "fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "changelog-producer": "lookup", "lookup.store.values": "value"},
    }
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)
    table.upsert(pa.table({"k": pa.array(range(3000), pa.int32()), "v": [f"{k * 7919:x}" for k in range(3000)]}))
    run_compaction(table.metadata, LocalRunner(1), full=True)
    run_lookup_store(table.metadata, LocalRunner(1))
    table.upsert(pa.table({"k": pa.array(range(20), pa.int32()), "v": ["x"] * 20}))
    run_compaction(table.metadata, LocalRunner(1))
    assert table.scan(where="v = 'x'").to_arrow()["k"].to_pylist() == list(range(20))


# With force-lookup and a full-compaction producer a compaction brought level 0 up without what lies below it.
#
# Readers take a record above level 0 for all that is below, so values of other columns, sums, and rows with a larger sequence
# vanished. Java's compactions of such tables lose them.

#: Options -> v and w of key 1, written as (v=5, w null) and then as (v=2, w='new').
ENGINES_BELOW = {
    "partial-update": ({"merge-engine": "partial-update"}, (2, "new")),
    "sum": ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, (7, "new")),
    "sequence": ({"sequence.field": "v"}, (5, None)),
    "deduplicate": ({}, (2, "new")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES_BELOW)
@pytest.mark.parametrize("with_lookup_files", [False, True])
def test_no_compaction_changes_a_row(tmp_path: Path, name: str, with_lookup_files: bool) -> None:
    options, wanted = ENGINES_BELOW[name]
    spec = table_spec(
        "k INT, v BIGINT, w STRING, x INT",
        ["k"],
        options={"bucket": "1", "force-lookup": "true", "changelog-producer": "full-compaction", **options},
    )
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)

    def upsert(keys: range, v: int, w: str | None, x: int | None) -> None:
        row = {"v": pa.int64(), "w": pa.string(), "x": pa.int32()}
        columns = {n: pa.array([value] * len(keys), t) for (n, t), value in zip(row.items(), (v, w, x), strict=True)}
        table.upsert(pa.table({"k": pa.array(keys, pa.int32()), **columns}))

    upsert(range(300), 5, None, 8)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    if with_lookup_files:
        run_lookup_store(table.metadata, LocalRunner(1))
    upsert(range(1, 2), 2, "new", None)
    x = 8 if name in ("partial-update", "sum", "sequence") else None
    for full in (False, True):
        run_compaction(table.metadata, LocalRunner(1), full=full)
        assert {f["level"] for f in table.files()} == ({5} if full else {4, 5})
        (row,) = table.scan(where="k = 1").to_arrow().to_pylist()
        assert (row["v"], row["w"], row["x"]) == (*wanted, x)
        (row,) = table.lookup(pa.table({"k": pa.array([1], pa.int32())})).to_pylist()
        assert (row["v"], row["w"], row["x"]) == (*wanted, x)
    told = table.changes(1, mode="changelog", where="k = 1").to_arrow().to_pylist()
    same = [{"_rowkind": "+I", "k": 1, "v": 5, "w": None, "x": 8}]
    changed = [
        {"_rowkind": "-U", "k": 1, "v": 5, "w": None, "x": 8},
        {"_rowkind": "+U", "k": 1, "v": wanted[0], "w": wanted[1], "x": x},
    ]
    assert told == same + changed


# `record-level.expire-time` was checked at create and then ignored: compactions kept rows that Java drops.

_NOW = time.time()
_OLD, _NEW = _NOW - 7200, _NOW + 7200


def _table(folder: Path, data_type: str, **options: str) -> lakeidx.Table:
    expire = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
    return lakeidx.Table.create(
        f"{folder}/d.db/t",
        {
            "fields": [{"name": "k", "type": "INT"}, {"name": "t", "type": data_type}, {"name": "v", "type": "STRING"}],
            "primaryKeys": ["k"],
            "options": {"bucket": "1", **expire, **options},
        },
    )


def _compact(table: lakeidx.Table, *, full: bool = True) -> CompactionReport:
    return run_compaction(table.metadata, LocalRunner(), full=full)


def _keys(table: lakeidx.Table) -> list[int]:
    return sorted(table.scan(columns=["k"]).to_arrow().column("k").to_pylist())


def _time_of(data_type: str, seconds: float) -> Any:
    if data_type == "INT":
        return int(seconds)
    if data_type == "BIGINT":
        return int(seconds * 1000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment if "LOCAL" in data_type else moment.replace(tzinfo=None)


@pytest.mark.parametrize(
    "data_type", ["INT", "BIGINT", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"]
)
def test_old_rows_are_read_until_a_compaction_drops_them(tmp_path: Path, data_type: str) -> None:
    """Old rows go, new ones and those without a time stay; readers see all before."""
    table = _table(tmp_path, data_type)
    times = pa.array([_time_of(data_type, _OLD), _time_of(data_type, _NEW), None])
    table.upsert(pa.table({"k": [1, 2, 3], "t": times, "v": ["a", "b", "c"]}))
    if data_type == "TIMESTAMP(9)":
        # Has no statistics: only a file that is rewritten anyway loses rows, in Java as well.
        table.upsert(pa.table({"k": [3], "v": ["c"]}), missing="null")
    assert _keys(table) == [1, 2, 3]
    _compact(table)
    assert _keys(table) == [2, 3]
    assert table.lookup(pa.table({"k": [1]})).column("_FOUND").to_pylist() == [False]


def test_seconds_in_a_bigint(tmp_path: Path) -> None:
    """Numbers below a million million are seconds."""
    table = _table(tmp_path, "BIGINT")
    table.upsert(pa.table({"k": [1, 2], "t": [int(_OLD), int(_NEW)]}), missing="null")
    _compact(table)
    assert _keys(table) == [2]


def test_a_file_all_in_the_top_level_is_rewritten_when_its_oldest_row_is_too_old(tmp_path: Path) -> None:
    """A second full compaction does nothing while no row is too old, and drops those that became so; also a file written
    before the column was widened.
    """
    table = _table(tmp_path, "INT")
    table.upsert(pa.table({"k": [1, 2], "t": [int(time.time()) - 2400, int(_NEW)]}), missing="null")
    _compact(table)
    assert _keys(table) == [1, 2]
    assert _compact(table).snapshot_ids == ()
    schema = json.loads((tmp_path / "d.db/t/schema/schema-0").read_text())
    schema["id"], schema["options"]["record-level.expire-time"] = 1, "30 min"
    schema["fields"][1]["type"] = "BIGINT"
    (tmp_path / "d.db/t/schema/schema-1").write_text(json.dumps(schema))
    table = lakeidx.Table.open(f"{tmp_path}/d.db/t")
    assert _compact(table).rows_out == 1
    assert _keys(table) == [2]


def test_the_column_must_be_a_time(tmp_path: Path) -> None:
    """Refused when the table is made."""
    with pytest.raises(InvalidInputError, match=r"record-level\.time-field.*'t' must be INT, BIGINT or TIMESTAMP"):
        _table(tmp_path, "STRING")


# Resizing rings whose buckets hold keys that the ring does not send there: nothing is lost, and hashes stay together.


def _with_type(table: IndexedTable, name: str) -> None:
    """Another index type for a table that is there."""
    metadata = Table.open(table.table.uri).metadata
    old = metadata.latest_schema()
    new = dataclasses.replace(old, id=old.id + 1, options={**old.options, **LOCAL_TYPES[name],
                              "hoodie.bucket.index.num.buckets": "16", "hoodie.bucket.index.max.num.buckets": "64",
                              "hoodie.bucket.index.min.num.buckets": "1"})  # fmt: skip
    metadata.store.put(metadata.paths.schema_path(new.id), encode_schema(new))


def _resize(table: IndexedTable, target_bytes: int) -> int:
    metadata = Table.open(table.table.uri).metadata
    report = run_ring_resize(
        metadata,
        LocalRunner(1),
        index_dir=index_folder(metadata.paths),
        target_bytes=target_bytes,
        sleep=lambda _: None,
    )
    return report.splits + report.merges


@pytest.mark.slow
def test_keys_placed_by_another_rule_survive(tmp_path: Path) -> None:
    """Rows that the PartitionIndex rules placed, as Java's writers do, in a table that then gets rings."""
    table = IndexedTable.make(tmp_path, "hash", {})
    history = fixed_history(29, batches=4, size=40)
    model: Model = {}
    for number, batch in enumerate(history[:2]):
        table.upsert(batch, f"b{number}")
        apply(model, batch, over_partitions=False)
    _with_type(table, "bucket ring")
    assert _resize(table, 1) > 0
    table.check(model)
    table.upsert(history[2], "b2")
    apply(model, history[2], over_partitions=False)
    table.check(model)
    assert _resize(table, 1 << 20) > 0
    table.upsert(history[3], "b3")
    apply(model, history[3], over_partitions=False)
    table.check(model)


@pytest.mark.slow
def test_keys_of_one_hash_stay_in_one_bucket(tmp_path: Path) -> None:
    """Pairs of keys with equal hashes, which the ring knows nothing of."""
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 62, 400_000))
    table = IndexedTable.make(tmp_path, "bucket ring", LOCAL_TYPES["bucket ring"])
    hashes = hash_columns([pa.array(keys)], table.table.schema.key_types)
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    pairs = np.unique(keys[np.concatenate([order[same], order[same + 1]])]).tolist()
    assert len(pairs) >= 10
    batch: list[Row] = [(1, k, f"{k}", "+I") for k in [*pairs, *range(100)]]
    _with_type(table, "bucket ring")
    model: Model = {}
    table.upsert(batch, "b0")
    apply(model, batch, over_partitions=False)
    table.check(model)
    assert _resize(table, 1) > 0
    table.check(model)
    assert _resize(table, 1 << 20) > 0
    table.check(model)
