"""The prompt of ``lakeidx sql``: what completes, what ends a statement, and what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import lakeidx
from lakeidx.api.sql.statement import Statement
from lakeidx.cli.sql.prompt import Words, history_file, is_complete, run_prompt


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lakeidx.Warehouse:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = lakeidx.Warehouse(tmp_path / "lake")
    made.sql("CREATE TABLE shop.orders (id INT, total INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    return made


@pytest.mark.parametrize(
    ("text", "typed", "some"),
    [
        ("sel", "sel", "SELECT"),
        ("SELECT * FROM sh", "sh", "shop.orders"),
        ("SELECT * FROM shop.o", "shop.o", "shop.orders"),
        ("SELECT * FROM shop.orders$f", "shop.orders$f", "shop.orders$files"),
        ("SELECT * FROM sys.ta", "sys.ta", "sys.tables"),
        ("CALL sys.exp", "sys.exp", "sys.expire_snapshots"),
        ("SELECT * FROM shop.orders WHERE to", "to", "total"),
        ("SELECT * FROM shop.orders o WHERE o.to", "to", "total"),
        ("SELECT 1 ", "", None),
    ],
)
def test_words_complete_what_is_typed(warehouse: lakeidx.Warehouse, text: str, typed: str, some: str | None) -> None:
    found, words = Words(warehouse).completions(text)
    assert found == typed
    assert (some in words) if some else words == []


def test_enter_ends_a_statement_after_its_semicolon() -> None:
    assert [is_complete(t) for t in ("SELECT 1", "SELECT 1;", "SELECT 1;\n", " ", "exit")] == [
        False,
        True,
        True,
        True,
        True,
    ]


def test_the_prompt_runs_statements_over_lines_remembers_them_and_goes_on_after_errors(
    warehouse: lakeidx.Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(statement: Statement) -> None:
        ran.append(str(statement))
        warehouse.sql(str(statement))

    with create_pipe_input() as keys:
        keys.send_text("SELECT\r1;\rSELECT nope;\r\rINSERT INTO shop.orders VALUES (1, 2); SELECT 3;\rexit\r")
        run_prompt(warehouse, run, keys, DummyOutput())
    assert ran == ["SELECT\n1", "SELECT nope", "INSERT INTO shop.orders VALUES (1, 2)", "SELECT 3"]
    assert "lakeidx: line 1, column 8" in capsys.readouterr().err
    assert "+1;" in history_file().read_text()
    with create_pipe_input() as keys:
        # Up brings the last statement back; Ctrl-D leaves.
        keys.send_text("\x1b[A\x1b[A\r\x04")
        run_prompt(warehouse, run, keys, DummyOutput())
    assert ran[4:] == ["INSERT INTO shop.orders VALUES (1, 2)", "SELECT 3"]
