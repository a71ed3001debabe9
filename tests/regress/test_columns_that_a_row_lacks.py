"""Rows that lack a column of their table."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.ingest import run_ingest
from lakeidx.batch.upsert import commit_batch, write_attempt
from lakeidx.cli.main import app
from lakeidx.errors import CommitConflictError, InvalidInputError, RejectedRowsError
from lakeidx.landing.cdc import reader
from lakeidx.landing.text import json_lines
from lakeidx.landing.types import LandingOptions
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.tasks.runner import LocalRunner

# A line, message or dictionary without a column of the table replaced the key's value by null, in silence.

Row = dict[str, Any]
FORMATS = ("jsonl", "debezium", "maxwell", "canal", "ogg", "dms-json")
#: What a message of each format has of an update: the row after it, and what it says of the row before.
UNAVAILABLE = "__debezium_unavailable_value"


def make(folder: Path, **options: str) -> lakeidx.Table:
    types = {"id": "INT NOT NULL", "a": "STRING", "b": "STRING", "n": "INT"}
    fields = [{"name": n, "type": t} for n, t in types.items()]
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1", **options}}
    return lakeidx.Table.create(f"{folder}/d.db/t{len(list(folder.rglob('*.db/*')))}", spec)


def message(name: str, op: str, row: Row, before: Row | None = None) -> Row:
    """A change as a tool writes it; `op` is one of c, u, d."""
    long = {"c": "insert", "u": "update", "d": "delete"}[op]
    if name == "jsonl":
        return {**row, **({"_kind": {"c": "+I", "u": "+U", "d": "-D"}[op]} if op != "c" else {})}
    if name == "debezium":
        return {"op": op, "before": row if op == "d" else before, "after": None if op == "d" else row}
    if name == "maxwell":
        return {"type": long, "data": row, **({"old": before} if before else {})}
    if name == "canal":
        texts = {n: None if v is None else str(v) for n, v in row.items()}
        return {"type": long.upper(), "data": [texts], "old": [before] if before else None}
    if name == "ogg":
        sides = {"before": row} if op == "d" else {"before": before, "after": row} if before else {"after": row}
        return {"op_type": {"c": "I", "u": "U", "d": "D"}[op], **sides}
    return {"metadata": {"operation": long}, "data": row, **({"before-image": before} if before else {})}


def put(
    table: lakeidx.Table, folder: Path, messages: list[Row], name: str, *, spoiled: bool = False, **more: Any
) -> Any:
    file = folder / f"f{len(list(folder.glob('f*')))}.json"
    text = "".join(json.dumps(m) + "\n" for m in messages)
    file.write_text(text + ("?\n" if spoiled else ""))
    return table.upsert_files([str(file)], LandingOptions(name, **more))


def rows(table: lakeidx.Table) -> list[Row]:
    found: list[Row] = table.scan().to_arrow().sort_by("id").to_pylist()
    return found


def reasons(table: lakeidx.Table, result: Any) -> list[str]:
    from lakeidx.batch.stages.rejected_rows import read_rejected

    found = read_rejected(table.store, result.ingest.rejected_path).to_pylist()
    return [f"{r['line']}: {r['reason'].split(',')[0]}" for r in found if "not JSON" not in r["reason"]]


FIRST: Row = {"id": 1, "a": "x", "b": "KEEP", "n": 7}


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_lacks_a_column_is_rejected_and_null_is_null(tmp_path: Path, name: str, spoiled: bool) -> None:
    """Read by Arrow and, beside a spoiled line, line by line; also where all other rows have the column, or have null."""
    table = make(tmp_path)
    put(table, tmp_path, [message(name, "c", {**FIRST, "id": i}) for i in (1, 2, 3, 4)], name)
    messages = [
        message(name, "u", {"id": 1, "a": "x2", "n": 8}),
        message(name, "u", {"id": 2, "a": "x2", "b": None, "n": 8}),
        message(name, "d", {"id": 3}),
        message(name, "c", {"id": 5, "n": 9, "a": 'a "b":null, \\'}),
        message(name, "u", {"id": 4, "a": 'x:null,"b":null', "b": "new", "n": None}),
    ]
    result = put(table, tmp_path, messages, name, spoiled=spoiled)
    assert reasons(table, result) == ["1: missing: the row lacks b", "4: missing: the row lacks b"]
    assert rows(table) == [
        FIRST,
        {"id": 2, "a": "x2", "b": None, "n": 8},
        {"id": 4, "a": 'x:null,"b":null', "b": "new", "n": None},
    ]
    with pytest.raises(RejectedRowsError, match="missing: the row lacks a, b, and null would overwrite its value"):
        put(table, tmp_path, [message(name, "u", {"id": 1, "n": 1})], name)
    put(table, tmp_path, [message(name, "u", {"id": 1, "n": 1})], name, missing="null")
    assert rows(table)[0] == {"id": 1, "a": None, "b": None, "n": 1}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", " :\t")])
def test_nulls_are_found_however_they_are_written(tmp_path: Path, separators: tuple[str, str]) -> None:
    """Names may be escaped, values may hold JSON, and other objects fields of the same name."""
    fields = [{"name": n, "type": "STRING"} for n in ("id", "größe", "a/b")]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    lines: list[Row] = [
        {"id": "1", "größe": None, "a/b": '{"größe": null}'},
        {"id": '":null', "größe": '\\"größe\\":null', "a/b": None},
        {"id": "3", "a/b": "x", "other": {"größe": None, "a/b": None}},
        {"id": "4", "größe": None, "other": [None, {"a/b": None}]},
    ]
    text = "\n".join(json.dumps(r, separators=separators).replace("a/b", "a\\/b") for r in lines)
    file = tmp_path / "f.jsonl"
    for one in (text, text + "\n?"):
        file.write_text(one + "\n")
        result = table.upsert_files([str(file)], LandingOptions(ignore_extra=True))
        assert reasons(table, result) == ["3: missing: the row lacks größe", "4: missing: the row lacks a/b"]
        assert rows(table) == sorted(lines[:2], key=lambda r: str(r["id"]))


def test_lists_of_dictionaries(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([FIRST])
    with pytest.raises(InvalidInputError, match="row 1: missing: the row lacks b, and null would overwrite"):
        table.upsert([{"id": 1, "a": "x2", "n": 1}, {**FIRST, "id": 2}])
    assert rows(table) == [FIRST]
    table.upsert([{"id": 1, "a": "x2", "n": 1}, {**FIRST, "id": 2}], missing="null")
    assert rows(table)[0] == {"id": 1, "a": "x2", "b": None, "n": 1}
    table.upsert([{"id": 1, "_kind": "-D"}, {**FIRST, "id": 3, "_kind": "+I"}])
    assert [r["id"] for r in rows(table)] == [2, 3]
    for wrong in ("table", "before"):
        with pytest.raises(InvalidInputError, match=f"missing must be one of refuse, null, not '{wrong}'"):
            table.upsert([FIRST], missing=wrong)
        with pytest.raises(InvalidInputError, match=f"missing must be one of refuse, null, not '{wrong}'"):
            TableWriter(
                ReadOptions.parse({"path": table.uri, "missing": wrong}), table.schema.arrow_schema, overwrite=False
            )


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize("name", ["debezium", "ogg"])
def test_rows_are_completed_from_the_message(tmp_path: Path, name: str, spoiled: bool) -> None:
    table = make(tmp_path)
    put(table, tmp_path, [message(name, "c", FIRST)], name)
    messages = [
        message(name, "u", {"id": 1, "a": "x2"}, {**FIRST, "b": "OLD", "n": None}),
        message(name, "u", {"id": 2, "a": "x2", "n": 3}, {"id": 2}),
    ]
    result = put(table, tmp_path, messages, name, missing="before", spoiled=spoiled)
    assert reasons(table, result) == ["2: missing: the row lacks b"]
    assert rows(table) == [{"id": 1, "a": "x2", "b": "OLD", "n": None}]


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_completed_from_the_table(tmp_path: Path, name: str) -> None:
    table = make(tmp_path)
    put(table, tmp_path, [message(name, "c", FIRST)], name)
    messages = [
        message(name, "u", {"id": 1, "a": "x2"}),
        message(name, "u", {"id": 1, "n": 8}),
        message(name, "u", {"id": 9, "n": 8}),
        message(name, "c", {"id": 2, "a": "new"}),
        message(name, "d", {"id": 2}),
        message(name, "u", {"id": 2, "a": "gone"}),
        message(name, "c", {"id": 3, "a": None, "b": "y", "n": 1}),
        message(name, "u", {"id": 3, "b": "z"}),
    ]
    result = put(table, tmp_path, messages, name, missing="table")
    assert reasons(table, result) == ["3: missing: the update lacks a", "6: missing: the update lacks b"]
    assert rows(table) == [{"id": 1, "a": "x2", "b": "KEEP", "n": 8}, {"id": 3, "a": None, "b": "z", "n": 1}]
    assert result.ingest.completed_on == 1


def model(state: dict[int, Row], events: list[tuple[str, Row]]) -> list[int]:
    """Apply changes one after another; the numbers of those that cannot be completed."""
    wrong = []
    for i, (op, row) in enumerate(events):
        old = state.get(row["id"])
        if op == "d":
            state.pop(row["id"], None)
        elif old is None and op == "u" and len(row) < 4:
            wrong.append(i)
        else:
            state[row["id"]] = {**dict.fromkeys(FIRST), **(old or {}), **row}
    return wrong


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_are_completed_as_one_after_another(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several files and pieces of a batch, and several batches, some without nulls."""
    dice = random.Random(seed)
    name = FORMATS[seed % len(FORMATS)]
    for module in (reader, json_lines):
        monkeypatch.setattr(module, "BLOCK_BYTES", 200)
    monkeypatch.setattr(reader, "_FEW_LINES", 0)
    table, state = make(tmp_path), dict[int, Row]()
    for _ in range(3):
        events = list[tuple[str, Row]]()
        for _ in range(60):
            op = dice.choice("cuuuud")
            whole = {
                "id": dice.randrange(8),
                "a": dice.choice(["s", "t", None]),
                "b": dice.choice("uv"),
                "n": dice.randrange(9),
            }
            names = [n for n in whole if n == "id" or op == "c" or dice.random() < 0.5]
            events.append((op, {n: whole[n] for n in (("id",) if op == "d" else names)}))
        wrong = model(state, events)
        files = []
        for part in range(0, 60, 20):
            files.append(tmp_path / f"{part}.json")
            files[-1].write_text("".join(json.dumps(message(name, *e)) + "\n" for e in events[part : part + 20]))
        result = table.upsert_files([str(f) for f in files], LandingOptions(name, missing="table"))
        assert result.ingest.rows_rejected == len(wrong)
        assert rows(table) == sorted(state.values(), key=lambda r: int(r["id"]))


def test_with_an_order_the_newest_row_completes(tmp_path: Path) -> None:
    """A late row changes nothing, and gives nothing to those after it."""
    table = make(tmp_path, **{"sequence.field": "n"})
    put(table, tmp_path, [{"id": 1, "a": "x", "b": "KEEP", "n": 10}], "jsonl")
    lines = [
        {"id": 1, "a": "late", "b": "late", "n": 5},
        {"id": 1, "a": "new", "n": 20},
        {"id": 1, "b": "between", "n": 15},
        {"id": 1, "b": "end", "n": 30},
    ]
    put(table, tmp_path, lines[:3], "jsonl", missing="table")
    assert rows(table) == [{"id": 1, "a": "new", "b": "between", "n": 20}]
    put(table, tmp_path, [*lines[:1], *lines[3:]], "jsonl", missing="table")
    assert rows(table) == [{"id": 1, "a": "new", "b": "end", "n": 30}]


def test_a_table_that_others_have_written_meanwhile_completes_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([FIRST])
    file = tmp_path / "f.jsonl"
    file.write_text('{"id": 1, "a": "x2"}\n')
    context = make_context(table.metadata, "late", runner=LocalRunner(1))

    def ingest() -> None:
        run_ingest(
            context.files, table.metadata.latest_schema(), [str(file)], LandingOptions(missing="table"), context.runner,
            table=table.metadata, table_id=table.metadata.table_id,
        )  # fmt: skip
        write_attempt(context, context.files.latest_attempt())

    ingest()
    table.upsert([{**FIRST, "b": "NEWER"}])
    with pytest.raises(CommitConflictError, match="completed from the table, which others have written since"):
        commit_batch(context)
    assert rows(table) == [{**FIRST, "b": "NEWER"}]
    assert not table.upsert_files([str(file)], LandingOptions(missing="table"), batch_id="late").already
    assert rows(table) == [{**FIRST, "a": "x2", "b": "NEWER"}]


def test_values_that_debezium_could_not_read(tmp_path: Path) -> None:
    update = message("debezium", "u", {**FIRST, "a": "x2", "b": UNAVAILABLE}, {**FIRST, "b": UNAVAILABLE})
    known = message("debezium", "u", {**FIRST, "a": "x2", "b": UNAVAILABLE}, {**FIRST, "b": "OLD"})
    for missing, kept in (("refuse", None), ("null", None), ("before", "OLD"), ("table", "KEEP")):
        table = make(tmp_path)
        table.upsert([FIRST])
        messages = [known] if missing == "before" else [update]
        if kept is None:
            with pytest.raises(RejectedRowsError, match="the source did not send the value of b"):
                put(table, tmp_path, messages, "debezium", missing=missing)
        else:
            put(table, tmp_path, messages, "debezium", missing=missing)
            assert rows(table) == [{**FIRST, "a": "x2", "b": kept}]
    partial = make(tmp_path, **{"merge-engine": "partial-update"})
    partial.upsert([FIRST])
    put(partial, tmp_path, [update], "debezium")
    assert rows(partial) == [{**FIRST, "a": "x2"}]


def test_a_change_of_key_is_rejected_as_a_whole(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([FIRST, {**FIRST, "id": 3}])
    moves = [
        message("debezium", "u", {"id": 2, "a": "x"}, FIRST),
        message("debezium", "u", {**FIRST, "id": 4, "n": "no number"}, {**FIRST, "id": 3}),
        message("debezium", "c", {**FIRST, "id": 5}),
    ]
    keyed = [{**m, "before": m["before"] and {"id": m["before"]["id"]}} for m in moves]
    for missing in ("refuse", "table"):
        result = put(table, tmp_path, keyed, "debezium", missing=missing)
        assert result.ingest.rows_rejected == 4
        assert [r["id"] for r in rows(table)] == [1, 3, 5]


def test_values_that_are_taken_back_must_be_there(tmp_path: Path) -> None:
    table = make(tmp_path, **{"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"})
    table.upsert([FIRST])
    delete = message("maxwell", "d", {"id": 1})
    with pytest.raises(
        RejectedRowsError, match="missing: the row lacks a, b, n, which a row that is taken back must have"
    ):
        put(table, tmp_path, [delete], "maxwell")
    update = message("maxwell", "u", {"id": 1, "n": 5}, {"n": 7})
    with pytest.raises(RejectedRowsError, match="missing: the row lacks a, b, which"):
        put(table, tmp_path, [update], "maxwell")
    assert rows(table) == [FIRST]


def test_columns_that_the_batch_brings(tmp_path: Path) -> None:
    """Rows before the first that has it lack nothing, as the table has no value of it yet; rows after it do."""
    table = make(tmp_path)
    lines = [FIRST, {**FIRST, "id": 2, "more": "m"}, {**FIRST, "id": 3}]
    result = put(table, tmp_path, lines, "jsonl", merge_schema="add")
    assert reasons(table, result) == ["3: missing: the row lacks more"]
    assert rows(table) == [{**FIRST, "more": None}, {**FIRST, "id": 2, "more": "m"}]
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    one.write_text(json.dumps({**FIRST, "more": "m", "other": 1}) + "\n")
    two.write_text(
        "".join(json.dumps({**FIRST, "id": i, "more": "m", **o}) + "\n" for i, o in ((5, {}), (6, {"other": 2})))
    )
    options = LandingOptions(merge_schema="add")
    with pytest.raises(
        InvalidInputError, match="rows lack the columns other, which an earlier file of the batch brings"
    ):
        table.upsert_files([str(one), str(two)], options)
    assert table.upsert_files([str(two), str(one)], options).ingest.rows_rejected == 0
    with pytest.raises(InvalidInputError, match="row 2: missing: the row lacks late"):
        table.upsert([{**rows(table)[0], "late": 1}, rows(table)[1]], merge_schema="add")


def test_a_csv_file_without_a_column_is_completed_and_an_overwrite_is_not(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([FIRST])
    file = tmp_path / "f.csv"
    file.write_text("id,a\n1,x2\n")
    for missing in ("refuse", "before"):
        with pytest.raises(InvalidInputError, match="lack the columns b, n"):
            table.upsert_files([str(file)], LandingOptions(missing=missing))
    with pytest.raises(InvalidInputError, match="an overwrite replaces these rows"):
        table.upsert_files([str(file)], LandingOptions(missing="table"), overwrite="table")
    done = CliRunner().invoke(app, ["upsert", table.uri, str(file), "--missing", "table"])
    assert done.exit_code == 0, done.output
    assert rows(table) == [{**FIRST, "a": "x2"}]
    with pytest.raises(InvalidInputError, match="missing must be one of refuse, null, before, table, not 'keep'"):
        table.upsert_files([str(file)], LandingOptions(missing="keep"))


def test_columns_that_may_not_be_null_and_defaults(tmp_path: Path) -> None:
    types = {"id": "INT NOT NULL", "a": "STRING NOT NULL", "d": "INT"}
    fields = [{"name": n, "type": t} for n, t in types.items()]
    fields[2]["defaultValue"] = "7"
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)
    table.upsert(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"], "d": pa.array([1], pa.int32())}))
    lines: list[Row] = [{"id": 1}, {"id": 2, "d": 3}, {"id": 3, "a": "y"}, {"id": 1, "a": None}]
    result = put(table, tmp_path, lines, "jsonl", missing="table")
    assert reasons(table, result) == ["2: null: column a must not be null", "4: null: column a must not be null"]
    assert rows(table) == [{"id": 1, "a": "x", "d": 1}, {"id": 3, "a": "y", "d": 7}]


# Rows that lack a column are in the table that is made of their file; rows that are rejected are told.


@pytest.mark.parametrize("text", ['[{"id":1,"a":{"b":2}},{"id":2}]', '{"id":1,"a":{"b":2}}\n{"id":2}\n'])
@pytest.mark.parametrize("command", ["init", "create"])
def test_optional_members_of_json_are_null(tmp_path: Path, command: str, text: str) -> None:
    file, table = tmp_path / "rows.json", tmp_path / "w" / "d.db" / "t"
    file.write_text(text, encoding="utf-8")
    words = ["init", str(file), "--table", str(table), "--yes"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        found = CliRunner().invoke(
            app, words if command == "init" else ["table", "create", str(table), "--from", str(file)]
        )
    assert found.exit_code == 0, found.output
    assert "missing_columns: null, since some rows lack a" in found.stderr
    rows = lakeidx.Table.open(table).scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda r: r["id"]) == [{"id": 1, "a": {"b": 2}}, {"id": 2, "a": None}]


@pytest.mark.parametrize("command", ["init", "create"])
def test_rejected_rows_are_told(tmp_path: Path, command: str) -> None:
    folder, table = tmp_path / "landing", tmp_path / "w" / "d.db" / "t"
    folder.mkdir()
    for i in range(6):  # the second is none of those that are looked at
        (folder / f"{i}.csv").write_text(f"id,qty\n{i},{'many' if i == 1 else i}\n", encoding="utf-8")
    words = ["init", str(folder), "--table", str(table), "--key", "id", "--yes", "--json"]
    if command == "create":
        words = ["table", "create", str(table), "--from", str(folder), "--key", "id", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "1 rows rejected" in found.stderr
    assert "1.csv line 2: cast: column qty is not BIGINT: 'many'" in found.stderr
    told = json.loads(found.stdout)
    assert (told["rows"], told["rejected"], lakeidx.Table.open(table).scan().to_arrow().num_rows) == (6, 1, 5)
