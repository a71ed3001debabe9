"""Rows that lack a column are in the table that is made of their file; rows that are rejected are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.cli.main import app


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
