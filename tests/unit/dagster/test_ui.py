"""What the command behind `make ui` says and returns when there is no UI."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakeidx.dagster import ui
from tests.kit.ports import free_ports


def test_without_dagster_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed the address of a UI that could not start, and returned 0."""
    monkeypatch.setattr(ui, "find_spec", lambda _: None)
    assert ui.main([]) == 2
    assert capsys.readouterr().err == "the UI needs Dagster: pip install 'lakeidx[dagster]'\n"


@pytest.mark.parametrize("code", [1, 3])
def test_a_server_that_ends_by_itself_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    (port,) = free_ports(1)
    assert ui.main(["--work", str(tmp_path), "--port", str(port)]) == code
