"""`lakeidx changes` and `lakeidx diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lakeidx.api import Table
from lakeidx.cli.main import app

FIELDS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}, {"name": "n", "type": "INT"}]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    made.upsert(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"], "n": [1, 1, 1]}))
    made.upsert(pa.table({"k": [2, 3, 4], "v": ["B", "c", "d"], "n": [2, 2, 4], "_kind": ["+I", "-D", "+I"]}))
    return made


def run(*arguments: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_diff_shows_rows_before_and_after(table: Table) -> None:
    assert run("diff", table.uri, "1", "2") == [
        {"k": 2, "v": "b", "n": 1, "_rowkind": "-U"},
        {"k": 2, "v": "B", "n": 2, "_rowkind": "+U"},
        {"k": 3, "v": "c", "n": 1, "_rowkind": "-D"},
        {"k": 4, "v": "d", "n": 4, "_rowkind": "+I"},
    ]
    assert run("diff", table.uri, "1", "2", "--keys", "--where", "k > 2") == [
        {"k": 3, "_rowkind": "-D"},
        {"k": 4, "_rowkind": "+I"},
    ]
    assert run("diff", table.uri, "1", "2", "--stat") == [
        {"what": "new", "rows": 1},
        {"what": "changed", "rows": 1},
        {"what": "deleted", "rows": 1},
        {"what": "column v", "rows": 1},
        {"what": "column n", "rows": 1},
    ]


def test_changes_of_a_range(table: Table) -> None:
    assert run("changes", table.uri, "1..", "--columns", "k") == [
        {"k": 2, "_rowkind": "+I"},
        {"k": 3, "_rowkind": "-D"},
        {"k": 4, "_rowkind": "+I"},
    ]
    derived = run("changes", table.uri, "..2", "--mode", "derived", "--columns", "k")
    assert [(r["k"], r["_rowkind"]) for r in derived] == [
        (1, "+I"), (2, "+I"), (3, "+I"), (2, "-U"), (2, "+U"), (3, "-D"), (4, "+I"),
    ]  # fmt: skip
    assert table.changes(1, mode="diff", columns=["k"]).to_arrow().column("_rowkind").to_pylist() == [
        "-U", "+U", "-D", "+I",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "1", "yesterday"], "'yesterday' is no tag of the table, no snapshot id and no ISO time"),
        (["diff", "1", "9"], "snapshot 9"),
        (["diff", "2", "1"], "the first must not be greater"),
        (["diff", "1", "2", "--keys", "--columns", "v"], "give --keys or --columns, not both"),
        (["changes", "2"], "'2': write a range as A..B"),
        (["changes", "1..2", "--columns", "w"], "w"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(table: Table, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, [arguments[0], table.uri, *arguments[1:]])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
