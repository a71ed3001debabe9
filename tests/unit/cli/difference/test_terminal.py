"""Differences on a terminal: what is red and green, and what a program reads."""

from __future__ import annotations

import pytest

from lakeidx.cli.difference.collect import Cell, KeyDifference, StateDifference, print_difference

FOUND = StateDifference(
    ("k", "v"),
    keys=[
        KeyDifference("new", (Cell(None, "1"), Cell(None, "a[b]c"))),
        KeyDifference("changed", (Cell("2", "2"), Cell("old", "new"))),
        KeyDifference("deleted", (Cell("3", None), Cell("null", None))),
    ],
)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_before_and_after_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    FOUND.counts.kinds.update({"+I": 5, "-U": 1, "+U": 1, "-D": 1})
    print_difference(FOUND)
    printed = lines(capsys)
    cells = [[c.strip() for c in line.strip("│┃").replace("┃", "│").split("│")] for line in printed if line[0] in "│┃"]
    assert cells == [["", "k", "v"], ["+", "1", "a[b]c"], ["~", "2", "old → new"], ["-", "3", "null"]]
    assert printed[-1] == "and 4 more; --limit shows more of them, --stat counts all"
    assert not any("\x1b" in line for line in printed)


def test_a_terminal_is_coloured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_difference(FOUND)
    changed = next(line for line in lines(capsys) if "old" in line)
    assert "\x1b[31mold\x1b[0m" in changed
    assert "\x1b[32mnew\x1b[0m" in changed
