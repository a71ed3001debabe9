"""Tables of docs/benchmarks.md as benchmarks make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import report

AROUND: dict[str, Any] = {"commit": "abc1234", "cores": 2, "memory_gib": 24, "load_before": 0.5}
OLD = {**AROUND, "at": "2026-01-01T00:00:00+00:00", "case": "load", "seconds": 9.0}
NEW = [
    {**AROUND, "at": "2026-01-02T00:00:00+00:00", "case": "load", "seconds": 1.2345, "cpu_seconds": 2.0, "note": "x"},
    {**AROUND, "at": "2026-01-02T00:00:00+00:00", "case": "find", "operation": "new", "seconds": 2000.0, "files": 3},
]
TABLE = """Run of 2026-01-02 at abc1234 on 2 cores and 24 GiB, load average 0.5 before it.

| case | seconds | CPU seconds | files |
|---|---|---|---|
| load | 1.23 | 2 |  |
| find, new | 2,000 |  | 3 |"""


def test_the_newest_run_is_written_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, page, kept = tmp_path / "results", tmp_path / "page.md", tmp_path / "measured.json"
    results.mkdir()
    (results / "upsert.jsonl").write_text("".join(json.dumps(f) + "\n" for f in (OLD, *NEW)))
    page.write_text(
        "a\n<!-- measured upsert -->\nold\n<!-- end -->\n<!-- measured scan -->\nby hand\n<!-- end -->\nz\n"
    )
    for name, value in (("RESULTS", results), ("PAGE", page), ("KEPT", kept)):
        monkeypatch.setattr(report, name, value)
    assert bench.main(["report"]) == 0
    text = page.read_text()
    assert (
        text
        == f"a\n<!-- measured upsert -->\n{TABLE}\n<!-- end -->\n<!-- measured scan -->\nby hand\n<!-- end -->\nz\n"
    )
    # What is kept makes the page again, and nothing that the page does not show is kept.
    assert report.page_with(json.loads(kept.read_text()), text) == text
    assert "note" not in kept.read_text()
    assert bench.main(["report", "scan"]) == 1
    assert page.read_text() == text


def test_marks_of_the_page_are_names_of_benchmarks() -> None:
    names = report.marked(report.PAGE.read_text(encoding="utf-8"))
    assert len(names) == len(set(names))
    assert set(names) <= set(bench.benchmarks())
    assert set(report.kept_runs()) <= set(names)


def test_runs_of_other_cases_stand_below_each_other() -> None:
    def run(day: int, case: str, **more: Any) -> dict[str, Any]:
        return {**AROUND, "at": f"2026-01-0{day}T00:00:00+00:00", "case": case, "seconds": 1.0, **more}

    newest, other = run(4, "random"), run(3, "ordered | asked", files=3)
    assert report.of_different_cases([run(1, "random"), other, newest, run(2, "ordered | asked")]) == [newest, other]
    first, second = report.table([newest, other]).split("\n\nRun of ")
    assert first.startswith("Run of 2026-01-04")
    assert second.startswith("2026-01-03")
    assert "| ordered \\| asked | 1 | 3 |" in second


def test_trials_are_not_shown(tmp_path: Path) -> None:
    trial = {**AROUND, "at": "2026-01-01T00:00:00+00:00", "case": "load 1,000 rows", "seconds": 0.1}
    (tmp_path / "upsert.jsonl").write_text("".join(json.dumps(f) + "\n" for f in (trial, *NEW)))
    assert report.newest_runs(tmp_path) == {"upsert": NEW}


def test_what_was_not_run_again_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "measured.json"
    page.write_text("<!-- measured upsert -->\n<!-- end -->\n")
    other = {**OLD, "case": "load in random order"}
    kept.write_text(json.dumps({"upsert": [OLD, other, {**NEW[0], "case": "gone"}], "scan": [OLD]}))
    for name, value in (("RESULTS", tmp_path), ("PAGE", page), ("KEPT", kept)):
        monkeypatch.setattr(report, name, value)
    (tmp_path / "upsert.jsonl").write_text("".join(json.dumps(f) + "\n" for f in NEW))
    assert report.report(["upsert"]) == 0
    assert {f["case"] for f in json.loads(kept.read_text())["upsert"]} == {"load", "find"}
    assert json.loads(kept.read_text())["scan"] == [OLD]
    assert "random" not in page.read_text()
    kept.write_text(json.dumps({"upsert": [other]}))
    assert report.report(["upsert"]) == 0
    assert {f["case"] for f in json.loads(kept.read_text())["upsert"]} == {"load", "find", "load in random order"}
