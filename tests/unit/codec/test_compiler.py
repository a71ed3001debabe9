from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from lakeidx.cli.context import report_errors
from lakeidx.codec import compiler


def compilation_of(module: str) -> SimpleNamespace:
    """What Numba says when it begins to compile a function of a module."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


def test_the_first_compilation_of_a_process_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=compiler.__name__)
    word = compiler._Word()
    word.on_start(compilation_of("somebody.elses"))
    assert caplog.messages == []
    for module in ("lakeidx.codec.cursor", "lakeidx.data.parquet.pages"):
        word.on_start(compilation_of(module))
        word.on_end(compilation_of(module))
    assert len(caplog.messages) == 1
    assert "lakeidx warm-up" in caplog.messages[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_command_says_on_a_terminal_that_it_compiles(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    report_errors(lambda: compiler._Word().on_start(compilation_of("lakeidx.codec.cursor")))()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lakeidx: compiling kernels") is terminal
