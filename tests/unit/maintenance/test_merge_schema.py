"""Rows with columns that the table does not have: added or widened with the batch that brings them, and with no other."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.errors import CommitConflictError, InvalidInputError, RejectedRowsError
from lakeidx.landing.new_columns import NewColumnsError
from lakeidx.landing.types import LandingOptions
from lakeidx.maintenance import alter, landed_columns
from lakeidx.maintenance.alter import put_schema
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.types import parse_type
from tests.kit.command_line import call

ROW = {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]}
FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "INT"}, {"name": "n", "type": "INT"}]
MERGE = LandingOptions(merge_schema="widen")


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = lakeidx.Table.create(
        f"{tmp_path}/wh/d.db/t", {"fields": FIELDS, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    made.upsert([{"id": 1, "n": 10}])
    return made


def columns(table: lakeidx.Table) -> dict[str, str]:
    return {f.name: str(f.type.with_nullable(True)) for f in lakeidx.Table.open(table.uri).schema.fields}


def values(table: lakeidx.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lakeidx.Table.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()
    return found


def write(folder: Path, name: str, rows: pa.Table) -> str:
    """Write rows as a landing file of the name's format."""
    path = folder / name
    if name.endswith("parquet"):
        pq.write_table(rows, path)
    elif name.endswith("arrow"):
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as out:
            out.write_table(rows)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(r, default=str) + "\n" for r in rows.to_pylist()))
    else:
        lines = [",".join("" if v is None else str(v) for v in r.values()) for r in rows.to_pylist()]
        path.write_text("\n".join([",".join(rows.column_names), *lines]) + "\n")
    return str(path)


NEW = pa.table(
    {
        "id": pa.array([2, 3], pa.int32()),
        "n": pa.array([20, None], pa.int32()),
        "city": ["Bern", None],
        "share": pa.array([0.5, None], pa.float32()),
        "seen": pa.array([7, None], pa.int16()),
        "nothing": pa.nulls(2),
    }
)
OLD_ROW = {"id": 1, "n": 10, "city": None, "share": None, "seen": None}
TYPED = ({"city": "STRING", "share": "FLOAT", "seen": "SMALLINT"}, {"share": 0.5, "seen": 7})


@pytest.mark.parametrize(
    ("name", "types", "read"),
    [
        ("rows", *TYPED),
        ("a.parquet", *TYPED),
        ("a.arrow", *TYPED),
        ("a.csv", {"city": "STRING", "share": "STRING", "seen": "STRING"}, {"share": "0.5", "seen": "7"}),
        ("a.jsonl", {"city": "STRING", "share": "DOUBLE", "seen": "BIGINT"}, {"share": 0.5, "seen": 7}),
    ],
)
def test_new_columns_of_every_format(
    table: lakeidx.Table, tmp_path: Path, name: str, types: dict[str, str], read: dict[str, Any]
) -> None:
    new = NEW.drop_columns(["nothing"]) if name == "a.csv" else NEW
    if name == "rows":
        with pytest.raises(InvalidInputError, match="columns the table does not have: city, nothing, seen, share"):
            table.upsert(new)
        table.upsert(new, merge_schema="add")
    else:
        file = write(tmp_path, name, new)
        with pytest.raises((InvalidInputError, RejectedRowsError), match=r"columns.* city"):
            table.upsert_files([file])
        table.upsert_files([file], LandingOptions(merge_schema="add"))
    assert columns(table) == {"id": "INT", "n": "INT", **types}
    gone = dict.fromkeys(("n", "city", "share", "seen"))
    assert values(table) == [OLD_ROW, {"id": 2, "n": 20, "city": "Bern", **read}, {"id": 3, **gone}]
    assert table.metadata.schema_ids() == [0, 1]
    assert all(f.type.nullable for f in table.schema.fields[2:])


def test_types_grow_where_the_policy_says_so_and_keys_never(table: lakeidx.Table, tmp_path: Path) -> None:
    wide = pa.table({"id": pa.array([2], pa.int64()), "n": pa.array([2**40], pa.int64())})
    with pytest.raises(InvalidInputError, match="column n is not INT"):
        table.upsert(wide, merge_schema="add")
    with pytest.raises(InvalidInputError, match="column n is not INT"):
        # Numbers of Python have no type that anyone chose.
        table.upsert(wide.to_pylist(), merge_schema=True)
    assert table.metadata.schema_ids() == [0]
    table.upsert_files([write(tmp_path, "wide.parquet", wide)], MERGE)
    assert columns(table) == {"id": "INT", "n": "BIGINT"}
    assert values(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 2**40}]
    fractions = pa.table({"id": pa.array([3], pa.int32()), "n": [1.0]})
    table.upsert(fractions, merge_schema=True)
    assert columns(table)["n"] == "BIGINT"
    with pytest.raises(InvalidInputError, match="column id is not INT"):
        table.upsert(pa.table({"id": pa.array([2**40], pa.int64()), "n": [1]}), merge_schema=True)


def test_fields_inside_of_columns(tmp_path: Path) -> None:
    nested = {"r": ROW, "a": {"type": "ARRAY", "element": ROW}, "m": {"type": "MAP", "key": "STRING", "value": ROW}}
    spec = {"fields": [*FIELDS, *({"name": n, "type": t} for n, t in nested.items())], "primaryKeys": ["id"]}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", {**spec, "options": {"bucket": "1"}})
    deep = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])
    types = {"r": deep, "a": pa.list_(deep), "m": pa.map_(pa.string(), deep)}
    value = {"x": 2**40, "y": {"z": "deep"}}
    row = {"id": 1, "n": 1, "r": value, "a": [value], "m": [("k", value)]}
    rows = pa.Table.from_pylist([row], pa.schema([("id", pa.int32()), ("n", pa.int32()), *types.items()]))
    file = write(tmp_path, "a.parquet", rows)
    missing = r"fields the table does not have: r\.y, a\.element\.y, m\.value\.y"
    with pytest.raises(InvalidInputError, match=missing):
        table.upsert(rows)
    with pytest.raises(InvalidInputError, match=missing):
        table.upsert_files([file])
    small = json.loads(json.dumps(row).replace(str(2**40), "7"))
    left_out = pa.Table.from_pylist([{**small, "m": [("k", small["r"])]}], rows.schema)
    kept = write(tmp_path, "b.parquet", left_out)
    table.upsert_files([kept], LandingOptions(ignore_extra=True))
    assert values(table) == [{"id": 1, "n": 1, "r": {"x": 7}, "a": [{"x": 7}], "m": [("k", {"x": 7})]}]
    table.upsert_files([file], MERGE)
    grown = "ROW<x BIGINT, y ROW<z STRING>>"
    assert {n: columns(table)[n] for n in "ra"} == {"r": grown, "a": f"ARRAY<{grown}>"}
    assert values(table) == [row]


def test_a_process_that_dies_once_its_columns_are_there(
    table: lakeidx.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "a.parquet", NEW)
    with monkeypatch.context() as patched:
        patched.setattr("lakeidx.batch.artifacts.BatchFiles.close", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.upsert_files([file], MERGE, batch_id="b")
    assert table.metadata.schema_ids() == [0, 1]
    assert not table.upsert_files([file], MERGE, batch_id="b").already
    assert table.metadata.schema_ids() == [0, 1]
    assert [r["city"] for r in values(table)] == [None, "Bern", None]


def refuse_rows(table: lakeidx.Table, folder: Path) -> None:
    bad = write(folder, "bad.csv", pa.table({"id": ["x", "y"], "n": [1, 2], "city": ["a", "b"]}))
    table.upsert_files([bad], MERGE)


def refuse_strict(table: lakeidx.Table, folder: Path) -> None:
    half = write(folder, "half.csv", pa.table({"id": ["2", "y"], "n": [1, 2], "city": ["a", "b"]}))
    table.upsert_files([half], MERGE, strict=True)


def refuse_given(table: lakeidx.Table, folder: Path) -> None:
    table.upsert([{"id": None, "n": 1, "city": "a"}], merge_schema=True)


def refuse_missing(table: lakeidx.Table, folder: Path) -> None:
    table.upsert([{"id": 2, "city": "a"}], merge_schema=True)


def test_json_lines_bring_fields_inside_of_columns(tmp_path: Path) -> None:
    held = {"type": "ARRAY", "element": ROW}
    mapped = {"type": "MAP", "key": "STRING NOT NULL", "value": ROW}
    fields = [FIELDS[0], {"name": "a", "type": ROW}, {"name": "b", "type": held}, {"name": "m", "type": mapped}]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    rows = [
        {
            "id": 1,
            "a": {"x": 1, "y": 5, "gone": None},
            "b": [{"x": 1}, {"x": 2, "deep": "d"}],
            "m": {"k": {"x": 1, "z": True}},
        },
        {"id": 2, "a": '{"x": 2, "y": 0.5}', "b": None, "m": [["k", {"x": 2}]], "new": 3},
        {"id": 3, "a": {"x": 3, "other": {"deeper": 1}}, "b": [], "m": {}, "new": None},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(RejectedRowsError, match="column a is not ROW<x INT>"):
        table.upsert_files([str(file)], LandingOptions(ignore_extra=True), strict=True)
    assert table.upsert_files([str(file)], MERGE).ingest.rows_rejected == 0
    assert columns(table) == {
        "id": "INT", "a": "ROW<x INT, y DOUBLE, other STRING>", "b": "ARRAY<ROW<x INT, deep STRING>>",
        "m": "MAP<STRING NOT NULL, ROW<x INT, z BOOLEAN>>", "new": "BIGINT",
    }  # fmt: skip
    first, second, third = values(table)
    assert first["a"] == {"x": 1, "y": 5.0, "other": None}
    assert first["b"] == [{"x": 1, "deep": None}, {"x": 2, "deep": "d"}]
    assert first["m"] == [("k", {"x": 1, "z": True})]
    assert (second["a"], second["m"], second["new"]) == (
        {"x": 2, "y": 0.5, "other": None}, [("k", {"x": 2, "z": None})], 3,
    )  # fmt: skip
    assert third["a"] == {"x": 3, "y": None, "other": '{"deeper": 1}'}


@pytest.mark.parametrize("refused", [refuse_rows, refuse_strict, refuse_given, refuse_missing])
def test_a_batch_that_is_refused_changes_no_column(
    table: lakeidx.Table, tmp_path: Path, refused: Callable[[lakeidx.Table, Path], None]
) -> None:
    with pytest.raises((InvalidInputError, RejectedRowsError)):
        refused(table, tmp_path)
    assert table.metadata.schema_ids() == [0]
    assert values(table) == [{"id": 1, "n": 10}]


def test_a_batch_that_comes_again_changes_no_column(table: lakeidx.Table, tmp_path: Path) -> None:
    plain = pa.table({"id": pa.array([2], pa.int32()), "n": pa.array([2], pa.int32())})
    table.upsert(plain, batch_id="b")
    with pytest.raises(InvalidInputError, match="ingested with other content"):
        table.upsert(plain.append_column("city", pa.array(["a"])), batch_id="b", merge_schema=True)
    file = write(tmp_path, "a.parquet", NEW)
    assert not table.upsert_files([file], MERGE, batch_id="c").already
    table.alter(drop=["city"])
    assert table.upsert_files([file], MERGE, batch_id="c").already
    assert "city" not in columns(table)
    assert table.metadata.schema_ids() == [0, 1, 2]


def racing(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let other alterations be faster, one each time the schema is about to be put."""
    waiting, faster = list(others), False

    def slow_put(handle: Any, new: Any) -> bool:
        nonlocal faster
        if waiting and not faster:
            faster = True
            waiting.pop(0)()
            faster = False
        return put_schema(handle, new)

    monkeypatch.setattr(alter, "put_schema", slow_put)


def test_a_lost_race_is_planned_again(table: lakeidx.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    racing(monkeypatch, lambda: table.alter(add={"other": "INT"}), lambda: table.alter(add={"city": "STRING"}))
    table.upsert_files([write(tmp_path, "a.parquet", NEW)], LandingOptions(merge_schema="add", missing="null"))
    assert list(columns(table)) == ["id", "n", "other", "city", "share", "seen"]
    assert [r["city"] for r in values(table)] == [None, "Bern", None]
    again = [lambda i=i: table.alter(add={f"o{i}": "INT"}) for i in range(landed_columns.MERGE_TRIES)]
    racing(monkeypatch, *again)
    more = NEW.slice(0, 1).append_column("late", pa.array([1]))
    with pytest.raises(CommitConflictError, match="5 times in a row; run the batch again"):
        table.upsert(more, merge_schema=True, missing="null")
    assert "late" not in columns(table)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([{"id": [2], "n": [1], "c": ["a"]}, {"id": [3], "n": [1], "c": [3]}], "'c' is BIGINT in this landing file and STRING in"),
        ([{"id": [2], "n": [1], "wait": pa.array([1], pa.duration("s"))}], "column 'wait': a table cannot hold values of duration"),
        ([{"id": [2], "n": [1], "N": [1]}], "a column 'N' and the table 'n': Spark and others"),
        ([{"id": [2], "n": [1], "_KEY_x": [1]}], "_KEY_x"),
        ([{"id": [2], "n": [1], "a.b": [1]}], "'a.b': the name of a new column must not contain a dot"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_added_are_refused_in_one_line(
    table: lakeidx.Table, tmp_path: Path, files: list[dict[str, Any]], message: str
) -> None:
    paths = [write(tmp_path, f"{i}.parquet", pa.table(columns)) for i, columns in enumerate(files)]
    with pytest.raises(InvalidInputError, match=message) as refused:
        table.upsert_files(paths, LandingOptions(merge_schema="add"))
    assert "\n" not in str(refused.value)
    assert table.metadata.schema_ids() == [0]
    with pytest.raises(InvalidInputError, match="merge_schema is one of refuse, add, widen, not 'all'"):
        table.upsert(NEW, merge_schema="all")


def test_types_of_several_files_and_of_mixed_json_values(table: lakeidx.Table, tmp_path: Path) -> None:
    small = {"id": pa.array([2], pa.int32()), "n": pa.array([1], pa.int32()), "x": pa.array([1], pa.int16())}
    large = {**small, "id": pa.array([3], pa.int32()), "x": pa.array([2**40], pa.int64())}
    table.upsert_files([write(tmp_path, f"{n}.parquet", pa.table(t)) for n, t in (("a", large), ("b", small))], MERGE)
    assert columns(table)["x"] == "BIGINT"
    mixed = tmp_path / "m.jsonl"
    rows = [
        {"id": 4, "n": 1, "x": 1, "a": 1, "b": 1, "c": None},
        {"id": 5, "n": 1, "x": 1, "a": 1.5, "b": "t", "c": {"d": 1}},
    ]
    mixed.write_text("\n".join(json.dumps(r) for r in rows) + "\n")
    table.upsert_files([str(mixed)], LandingOptions(merge_schema="add"))
    assert {n: t for n, t in columns(table).items() if n in "abc"} == {"a": "DOUBLE", "b": "STRING", "c": "STRING"}
    assert [(r["a"], r["b"], r["c"]) for r in values(table)[3:]] == [(1.0, "1", None), (1.5, "t", '{"d": 1}')]


def test_rows_with_an_operation(table: lakeidx.Table, tmp_path: Path) -> None:
    file = tmp_path / "changes.csv"
    file.write_text("op,id,n,city\nD,1,,\nI,2,5,Bern\n")
    table.upsert_files([str(file)], LandingOptions(op_column="op", merge_schema="add"))
    assert values(table) == [{"id": 2, "n": 5, "city": "Bern"}]


def test_columns_that_are_left_out_are_not_added(table: lakeidx.Table, tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", NEW)
    table.upsert_files([file], LandingOptions(merge_schema="widen", ignore_extra=True))
    assert columns(table) == {"id": "INT", "n": "INT"}
    assert len(values(table)) == 3


def test_the_command_says_what_it_added(table: lakeidx.Table, tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", NEW)
    done = call("upsert", table.uri, file, "--merge-schema", "true", "--batch-id", "b")
    assert "column city: added, STRING" in done.stderr
    assert "added" not in call("upsert", table.uri, file, "--merge-schema", "add", "--batch-id", "b").stderr


def test_the_error_that_asks_for_columns_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(NewColumnsError({"a": parse_type("INT")}, path="/f")))
    assert (error.columns, "a INT" in str(error)) == ({"a": parse_type("INT")}, True)


def by_spark(table: lakeidx.Table, rows: pa.Table, **options: str) -> None:
    """Write a data frame as Spark does: one task, then the commit."""
    writer = TableWriter(ReadOptions.parse({"path": table.uri, **options}), rows.schema, overwrite=False)
    writer.commit([writer.write(iter(rows.to_batches()))])


def test_data_frames_of_spark(table: lakeidx.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="columns the table does not have: city"):
        by_spark(table, NEW)
    bad = NEW.set_column(0, "id", pa.nulls(2, pa.int32()))
    with pytest.raises(InvalidInputError, match="row 1 of task 0: null: column id"):
        by_spark(table, bad, mergeSchema="true")
    assert table.metadata.schema_ids() == [0]
    # Columns that others add are null in the rows, and in rows of known keys: that must have been said.
    racing(monkeypatch, lambda: table.alter(add={"other": "INT"}), lambda: table.alter(add={"another": "INT"}))
    by_spark(table, NEW, **{"mergeSchema": "true", "batch-id": "b", "missing": "null"})
    assert list(columns(table)) == ["id", "n", "other", "another", "city", "share", "seen"]
    more = {"other": None, "another": None}
    assert values(table)[1] == {"id": 2, "n": 20, "city": "Bern", "share": 0.5, "seen": 7, **more}
    by_spark(table, NEW, **{"write.merge-schema": "add", "batch-id": "b", "missing": "null"})
    assert [s["id"] for s in table.snapshots()] == [1, 2]
    with pytest.raises(InvalidInputError, match="ingested with other content"):
        by_spark(table, NEW.slice(1), **{"merge_schema": "add", "batch-id": "b", "missing": "null"})
