"""Schema changes with two writers: after each of them the released Java Paimon reads the table and goes on writing it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import lakeidx
from lakeidx.cli.main import app
from tests.kit.java_paimon import JavaPaimon
from tests.kit.schema_histories import SchemaHistory, write_by_lakeidx
from tests.unit.api.test_faces import commands as every_command

pytestmark = pytest.mark.interop


def write_by_java(java: JavaPaimon, file: Path) -> Any:
    """A writer that gives rows to Java; its landing format has no rows inside rows, so those keys keep no ROW."""

    def write(history: SchemaHistory, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["r"] = None
        java.write([{n: None if v is None else str(v) for n, v in r.items()} for r in rows], file)

    return write


def java_rows(java: JavaPaimon) -> dict[int, dict[str, Any]]:
    rows = {}
    for row in java.json("read"):
        row.pop("_bucket")
        rows[row["k"]] = row
    return rows


def comparable(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Numbers as floats: Java prints decimals as text."""

    def value(v: Any) -> Any:
        if isinstance(v, dict):
            return {n: value(x) for n, x in v.items()}
        if isinstance(v, str):
            try:
                return float(v)
            except ValueError:
                return v
        return v if v is None else float(v)

    return {k: {n: value(v) for n, v in row.items()} for k, row in rows.items()}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_schema_histories_with_both_writers(tmp_path: Path, seed: int) -> None:
    history = SchemaHistory.begin(f"{tmp_path}/wh/d.db/t", seed)
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    by_java = write_by_java(java, tmp_path / "rows.jsonl")
    history.upsert(write_by_lakeidx)
    for turn in range(3):
        history.alter()
        history.upsert(by_java if turn % 2 == 0 else write_by_lakeidx)
        if turn == 1:
            history.compact()
        history.check()
        assert comparable(java_rows(java)) == comparable(history.rows)
    assert json.loads(Path(tmp_path / "wh/d.db/t/schema/schema-1").read_text())["id"] == 1


def test_columns_that_came_with_a_batch(tmp_path: Path) -> None:
    """Columns added and widened by `merge_schema`: Java goes on writing with them, and reads what both wrote."""
    fields = [{"name": "k", "type": "INT"}, {"name": "n", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "-1"}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    table.upsert([{"k": 1, "n": 10}])
    rows = pa.table({"k": pa.array([2], pa.int32()), "n": pa.array([2**40], pa.int64()), "city": ["Bern"]})
    table.upsert(rows, merge_schema=True)
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    java.write([{"k": "3", "n": str(2**41), "city": "Thun"}], tmp_path / "rows.jsonl")
    expected = {1: (10, None), 2: (2**40, "Bern"), 3: (2**41, "Thun")}
    assert {k: (r["n"], r["city"]) for k, r in java_rows(java).items()} == expected
    assert {r["k"]: (r["n"], r["city"]) for r in table.scan().to_arrow().to_pylist()} == expected


def renamed(row: dict[str, Any] | None, **names: str) -> dict[str, Any] | None:
    return row and {names.get(n, n): v for n, v in row.items()}


#: Flags of `lakeidx table alter`, and what they make of a row that is there.
STEPS: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = [
    ("--add 'city STRING' --add 'r.z BIGINT'", lambda row: {**row, "city": None, "r": row["r"] and {**row["r"], "z": None}}),
    ("--rename s=name --rename r.x=w --type 'a BIGINT'",
     lambda row: {**row, "name": row["s"], "r": renamed(row["r"], x="w")}),
    ("--move 'city first' --move 'a after name' --not-null a --comment 'name=who it is' --table-comment people", dict),
    ("--nullable a --default city=Bern --set snapshot.num-retained.max=30 --set 'target-file-size=64 mb'", dict),
    ("--no-default city --reset target-file-size --comment name= --table-comment '' --type 'r.w BIGINT'", dict),
    ("--drop r.z --drop city", lambda row: {**row, "r": row["r"] and {n: v for n, v in row["r"].items() if n != "z"}}),
]  # fmt: skip


def test_java_goes_on_after_every_flag_of_table_alter(tmp_path: Path) -> None:
    parts = [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING"}]
    types: dict[str, Any] = {"k": "INT", "a": "INT", "s": "STRING", "r": {"type": "ROW", "fields": parts}}
    spec = {
        "fields": [{"name": n, "type": t} for n, t in types.items()],
        "primaryKeys": ["k"],
        "options": {"bucket": "-1", "alter-column-null-to-not-null.disabled": "false"},
    }
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    model: dict[int, dict[str, Any]] = {
        1: {"k": 1, "a": 10, "s": "one", "r": {"x": 1, "y": "in"}},
        2: {"k": 2, "a": 20, "s": "two", "r": None},
    }
    table.upsert(list(model.values()))
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    given = {word for flags, _ in STEPS for word in shlex.split(flags) if word.startswith("--")}
    alter = dict(every_command(typer.main.get_command(app)))["table alter"]
    assert given == {opt for p in alter.params for opt in p.opts if opt.startswith("--")} - {
        "--plan",
        "--dry-run",
        "--json",
        "--branch",
    }
    for number, (flags, change) in enumerate(STEPS, start=3):
        command = ["table", "alter", table.uri, *shlex.split(flags)]
        assert CliRunner().invoke(app, [*command, "--plan"]).exit_code == 0
        assert lakeidx.Table.open(table.uri).schema.id == number - 3
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        table = lakeidx.Table.open(table.uri)
        names = table.schema.field_names
        model = {key: {n: v for n, v in change(row).items() if n in names} for key, row in model.items()}
        # Java writes null into the new column, which its default stands for.
        written = {n: {"k": number, "a": number}.get(n, f"text {number}") for n in names} | {"r": None}
        written |= {"city": None} if "city" in names else {}
        java.write([{n: None if v is None else str(v) for n, v in written.items()}], tmp_path / "rows.jsonl")
        model[number] = written | ({"city": "Bern"} if "--default" in flags else {})
        assert comparable(java_rows(java)) == comparable(model), flags
        assert {r["k"]: r for r in table.scan().to_arrow().to_pylist()} == model, flags
    assert names == ("k", "name", "a", "r")
