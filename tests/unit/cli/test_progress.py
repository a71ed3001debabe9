"""The bar on stderr: counts, rate and time left of each long command; nothing where stderr is no terminal."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

import lakeidx
from tests.kit.command_line import call
from tests.kit.small_tables import table_spec

SPEC: dict[str, Any] = table_spec("id BIGINT, name STRING", ["id"], options={"bucket": "4"})


@pytest.fixture
def table(tmp_path: Path) -> str:
    lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", SPEC).upsert([{"id": i, "name": "x"} for i in range(100)])
    (tmp_path / "in").mkdir()
    for n in range(3):
        (tmp_path / "in" / f"{n}.csv").write_text(
            "id,name\n" + "".join(f"{i},y{n}\n" for i in range(100)), encoding="utf-8"
        )
    return f"{tmp_path}/wh/d.db/t"


def commands(table: str, folder: Path) -> list[tuple[list[str], str]]:
    files = [f"{folder}/in/{n}.csv" for n in range(3)]
    return [
        (["upsert", table, *files], r"ingest .*3/3 tasks"),
        (["load", table, f"{folder}/in", "--settle", "0"], r"load .*2/3 files"),
        (["compact", table, "--full"], r"compaction .*4/4 tasks"),
        (["verify", table], r"verification .*4/4 tasks"),
        (["scan", table, "-o", f"{folder}/out.parquet"], r"scan .*100/100 rows of files"),
    ]


def test_long_commands_count_on_a_terminal(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lakeidx.cli.context.Console", partial(Console, force_terminal=True, color_system=None, width=120)
    )
    # Every change is drawn: commands of a test end before the second frame.
    monkeypatch.setattr("rich.progress.Progress.update", _drawn)
    for words, counted in commands(table, tmp_path):
        shown = call(*words).stderr
        assert re.search(counted, shown), f"{words[0]}: {shown[-2000:]}"
        assert re.search(r"\d/s", shown)
        assert " left" in shown
        assert call(*words, "--no-progress").stderr == ""


def test_nothing_is_drawn_where_nobody_looks(table: str, tmp_path: Path) -> None:
    for words, _ in commands(table, tmp_path):
        assert call(*words).stderr == ""


_update = Progress.update


def _drawn(bar: Any, task: Any, **changes: Any) -> None:
    _update(bar, task, **changes, refresh=True)
