"""Schemas and options change: what is allowed is one new schema that every reader follows, what is not says why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.batch.context import make_context
from lakeidx.batch.upsert import commit_batch, ingest_rows, write_attempt
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.maintenance import alter as alter_module
from tests.kit.command_line import answer, call

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "BIGINT"},
    {"name": "name", "type": "STRING"},
    {"name": "n", "type": "INT"},
    {"name": "r", "type": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]}},
]


def make(folder: Path, **options: str) -> lakeidx.Table:
    spec = {"fields": FIELDS, "primaryKeys": ["id"], "options": {"bucket": "-1", **options}}
    return lakeidx.Table.create(f"{folder}/wh/d.db/t", spec)


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"n{i}" for i in ids],
            "n": pa.array([i if i % 2 else None for i in ids], pa.int32()),
            "r": [{"x": i} for i in ids],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = make(tmp_path)
    made.upsert(rows(1, 2))
    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> lakeidx.Table:
    """A table for tests that change nothing."""
    made = make(tmp_path_factory.mktemp("kept"))
    made.upsert(rows(1, 2))
    return made


def content(table: lakeidx.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r[table.schema.primary_keys[0]])


def test_all_changes_at_once_are_one_schema(table: lakeidx.Table) -> None:
    result = table.alter(
        add={"age": "INT", "r.y": "STRING"},
        drop=["n"],
        rename={"name": "full_name"},
        types={"r.x": "BIGINT"},
        comments={"full_name": "as in the passport"},
        defaults={"age": "7"},
        move={"age": "after id"},
        set={"snapshot.num-retained.max": 20},
        comment="people",
    )
    assert (result.before, result.after) == (0, 1)
    assert table.metadata.schema_ids() == [0, 1]
    assert [str(d) for d in result.differences] == [
        "column n: dropped, INT",
        "column age: added, INT",
        "column name: renamed, name -> full_name",
        "column full_name: comment, none -> 'as in the passport'",
        "column r.x: type, INT -> BIGINT",
        "column r.y: added, STRING",
        "option snapshot.num-retained.max: set, 20",
        "table: comment, none -> 'people'",
    ]
    assert table.schema.field_names == ("id", "age", "full_name", "r")
    table.upsert(
        pa.table({"id": [2], "age": pa.array([None], pa.int32()), "full_name": ["two"], "r": [{"x": 2**40, "y": "q"}]})
    )
    assert content(table) == [
        {"id": 1, "age": None, "full_name": "n1", "r": {"x": 1, "y": None}},
        {"id": 2, "age": 7, "full_name": "two", "r": {"x": 2**40, "y": "q"}},
    ]


def test_a_plan_writes_nothing_and_no_change_is_no_schema(table: lakeidx.Table) -> None:
    assert table.alter(add={"age": "INT"}, dry_run=True).changed
    assert table.metadata.schema_ids() == [0]
    again = table.alter(set={"bucket": "-1"}, comments={"name": None})
    assert not again.changed
    assert "nothing to change" in str(again)
    assert table.metadata.schema_ids() == [0]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"drop": ["id"]}, "primary key column 'id' cannot be dropped"),
    ({"drop": ["gone"]}, "no column 'gone'"),
    ({"add": {"name": "INT"}}, "column 'name' exists"),
    ({"add": {"z": "INT NOT NULL"}}, "must be nullable"),
    ({"add": {"z": "INTT"}}, "unknown type"),
    ({"add": {"z.y": "INT"}}, "no column 'z'"),
    ({"types": {"n": "SMALLINT"}}, "INT cannot be widened to SMALLINT"),
    ({"types": {"n": "STRING"}}, "INT cannot be widened to STRING"),
    ({"defaults": {"n": "seven"}}, "the default 'seven' is not INT"),
    ({"defaults": {"r.x": "7"}}, "only whole columns have defaults"),
    ({"move": {"n": "before id"}}, "'first' or 'after NAME'"),
    ({"set": {"merge-engine": "partial-update"}}, "cannot change once the table has a snapshot"),
    ({"set": {"bucket": "4"}}, "cannot change to or from -1"),
    ({"set": {"sequence.field": "nope"}}, "column 'nope' does not exist"),
    ({"set": {"file-index.bloom-filter.columns": "nope"}}, "nope"),
    ({"set": {"index.type": "state"}}, "cannot change from hash to state"),
    ({"set": {"index.type": "global-bloom"}}, "cannot change from hash to global-bloom"),
    ({"nullable": {"name": False}}, "alter-column-null-to-not-null.disabled"),
    ({"set": {"index.type": "bloom"}, "rename": {"id": "key"}}, "an index of type bloom stores keys under its name"),
]


@pytest.mark.parametrize(("edits", "reason"), REFUSED, ids=lambda v: json.dumps(v) if isinstance(v, dict) else "")
def test_what_would_break_something_is_refused_with_the_reason(
    kept: lakeidx.Table, edits: dict[str, Any], reason: str
) -> None:
    with pytest.raises(LakeIdxError, match=re.escape(reason)):
        kept.alter(**edits)
    assert kept.metadata.schema_ids() == [0]


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "n"},
        {"file-index.bloom-filter.columns": "name,n"},
        {"fields.n.aggregate-function": "sum", "merge-engine": "aggregation"},
        {"record-level.expire-time": "1 d", "record-level.time-field": "n"},
    ],
    ids=lambda o: next(iter(o)),
)
def test_a_column_that_an_option_names_is_dropped_only_with_the_option(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, **options)
    table.upsert(rows(1, 3))
    with pytest.raises(InvalidInputError, match=r"option '.*' names it"):
        table.alter(drop=["n"])
    if "merge-engine" not in options:
        table.alter(reset=list(options), drop=["n"])
        table.upsert(rows(1, 5).drop_columns(["n"]))
        assert [r["id"] for r in content(table)] == [1, 3, 5]


def test_options_follow_a_renamed_column(tmp_path: Path) -> None:
    table = make(
        tmp_path, **{"sequence.field": "n", "file-index.bitmap.columns": "n", "file-index.bitmap.n.version": "2"}
    )
    table.upsert(rows(1, 3))
    table.alter(rename={"n": "seq"})
    options = dict(table.schema.options)
    assert options["sequence.field"] == "seq"
    assert options["file-index.bitmap.columns"] == "seq"
    assert options["file-index.bitmap.seq.version"] == "2"
    older = rows(1).rename_columns(["id", "name", "seq", "r"]).set_column(2, "seq", pa.array([0], pa.int32()))
    table.upsert(older)
    assert content(table)[0]["seq"] == 1


def test_not_null_is_checked_against_the_rows(tmp_path: Path) -> None:
    table = make(tmp_path, **{"alter-column-null-to-not-null.disabled": "false"})
    table.upsert(rows(1, 2))
    with pytest.raises(InvalidInputError, match="has rows with null"):
        table.alter(nullable={"n": False})
    table.alter(nullable={"name": False})
    with pytest.raises(InvalidInputError, match="name"):
        table.upsert(rows(9).set_column(1, "name", pa.nulls(1, pa.string())))
    table.alter(nullable={"name": True})


def test_types_of_index_that_find_keys_by_hash_files_may_take_turns(table: lakeidx.Table) -> None:
    for kind in ("bloom", "simple", "hash"):
        table.alter(set={"index.type": kind})
        table.upsert(rows(1, 2, 3))
        assert [r["id"] for r in content(table)] == [1, 2, 3]


def test_a_staged_batch_of_the_older_schema_is_cast(table: lakeidx.Table) -> None:
    context = make_context(table.metadata, "older")
    ingest_rows(context, rows(2, 3))
    write_attempt(context, 1)
    table.alter(add={"age": "INT"}, drop=["n"], rename={"name": "nm"}, types={"r.x": "BIGINT"})
    commit_batch(context)
    assert content(table) == [{"id": i, "nm": f"n{i}", "r": {"x": i}, "age": None} for i in (1, 2, 3)]


def test_two_alterations_at_once_both_count(table: lakeidx.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    other = lakeidx.Table.open(table.uri)
    put = alter_module.put_schema
    raced: list[int] = []

    def slow_put(handle: lakeidx.Table, new: Any) -> bool:
        if not raced:
            raced.append(1)
            other.alter(add={"theirs": "INT"})
        return put(handle, new)

    monkeypatch.setattr(alter_module, "put_schema", slow_put)
    result = table.alter(add={"ours": "INT"})
    assert (result.before, result.after) == (1, 2)
    assert table.schema.field_names[-2:] == ("theirs", "ours")


def test_defaults_fill_nulls_as_rows_are_written(tmp_path: Path) -> None:
    spec = {
        "fields": [{"name": "id", "type": "INT"}, {"name": "d", "type": "DECIMAL(9, 2)", "defaultValue": "1.50"}],
        "primaryKeys": ["id"],
        "options": {"bucket": "1"},
    }
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "d": pa.array([None, 2], pa.decimal128(9, 2))}), file)
    table.upsert_files([str(file)])
    assert [str(r["d"]) for r in content(table)] == ["1.50", "2.00"]


def test_the_command_makes_all_changes_at_once(table: lakeidx.Table) -> None:
    arguments = ["--add", "city STRING", "--rename", "name=nm", "--type", "n BIGINT", "--move", "city after id",
                 "--set", "snapshot.num-retained.max=50", "--comment", "nm=the name", "--default", "n=4"]  # fmt: skip
    planned = answer("table", "alter", table.uri, *arguments, "--plan", "--json")
    assert planned["dry_run"] is True
    assert table.metadata.schema_ids() == [0]
    done = answer("table", "alter", table.uri, *arguments, "--json")
    assert (done["before"], done["after"], done["changed"]) == (0, 1, True)
    assert done["differences"] == planned["differences"]
    assert table.schema.field_names == ("id", "city", "nm", "n", "r")
    assert table.schema.field("n").default_value == "4"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--add", "city"], "--add 'city': write 'NAME VALUE'"),
        (["--set", "a"], "--set 'a': write NAME=VALUE"),
        (["--add", "c INT", "--add", "c STRING"], "--add names 'c' twice"),
        ([], "say what to change"),
    ],
)
def test_the_command_says_how_to_write_it(kept: lakeidx.Table, arguments: list[str], reason: str) -> None:
    assert reason in call("table", "alter", kept.uri, *arguments, code=2).stderr
