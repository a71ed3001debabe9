"""Differences are counted and paired as a plain join of two dictionaries does."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.cli.difference.collect import Cell, KeyDifference, StateDifference, collect, print_difference

FIELDS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}, {"name": "d", "type": "DOUBLE"}]
Row = tuple[str | None, float | None]


def text(value: str | float | None) -> str:
    return value if isinstance(value, str) else "null" if value is None else "NaN" if value != value else str(value)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, dict[int, Row], dict[int, Row]]:
    """A table with two states, and what they hold."""
    spec = {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}}
    table = Table.create(f"{tmp_path_factory.mktemp('diff')}/d.db/t", spec)
    r = random.Random(5)

    def some() -> dict[int, Row]:
        return {
            k: (r.choice([None, "a", "b"]), r.choice([None, float("nan"), -0.0, 0.0])) for k in r.sample(range(60), 40)
        }

    old, new = some(), some()
    table.upsert(pa.table({"k": list(old), "v": [v for v, _ in old.values()], "d": [d for _, d in old.values()]}))
    gone = old.keys() - new.keys()
    table.upsert(
        pa.table(
            {
                "k": [*new, *gone], "v": [v for v, _ in new.values()] + [None] * len(gone),
                "d": pa.array([d for _, d in new.values()] + [None] * len(gone), pa.float64()),
                "_kind": ["+I"] * len(new) + ["-D"] * len(gone),
            }
        )
    )  # fmt: skip
    return table, old, new


def test_all_of_it(states: tuple[Table, dict[int, Row], dict[int, Row]]) -> None:
    table, old, new = states
    expected = []
    for k in sorted(old.keys() | new.keys()):
        before, after = (None if k not in s else (str(k), *map(text, s[k])) for s in (old, new))
        if before is None:
            assert after is not None
            expected.append(KeyDifference("new", tuple(Cell(None, v) for v in after)))
        elif after is None:
            expected.append(KeyDifference("deleted", tuple(Cell(v, None) for v in before)))
        elif before != after:
            expected.append(KeyDifference("changed", tuple(Cell(a, b) for a, b in zip(before, after, strict=True))))
    found = collect(table.diff(1, 2), 1000)
    assert found.keys == expected
    assert found.left_out == 0
    changed = [key for key in expected if key.what == "changed"]
    assert {row["what"]: row["rows"] for row in table.diff(1, 2).stat()} == {
        "new": len(new.keys() - old.keys()),
        "changed": len(changed),
        "deleted": len(old.keys() - new.keys()),
        "column v": sum(key.cells[1].changed for key in changed),
        "column d": sum(key.cells[2].changed for key in changed),
    }


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_what_is_not_kept_is_counted(states: tuple[Table, dict[int, Row], dict[int, Row]], limit: int) -> None:
    every = collect(states[0].diff(1, 2), 1000)
    found = collect(states[0].diff(1, 2), limit)
    assert found.keys == every.keys[:limit]
    assert found.left_out == len(every.keys) - limit
    assert list(found.counts.listing()) == list(states[0].diff(1, 2).stat())


def test_a_change_of_which_the_filter_leaves_one_side(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"], "d": [0.0, 0.0]}))
    table.upsert(pa.table({"k": [1, 2], "v": ["b", "c"], "d": [0.0, 0.0]}))
    found = collect(table.diff(1, 2, where="v = 'b'", columns=["k", "v"]), 9)
    assert found.keys == [
        KeyDifference("changed", (Cell(None, "1"), Cell(None, "b"))),
        KeyDifference("changed", (Cell("2", None), Cell("b", None))),
    ]


# ---- on a terminal: what is red and green, and what a program reads --------------------------------------------------


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
