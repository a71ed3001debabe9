"""Pairs of a benchmark in two trees: what is compared with what, and when it counts as worse."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier

import pytest

from bench import pairs
from lakeidx.testing.limits import HANGS_SECONDS


def test_processor_time_counts_before_time_by_the_clock_and_rates_become_times() -> None:
    found = pairs.times(
        [
            {"case": "a", "rows": 1000, "seconds": 2.0, "cpu_seconds": 1.0, "million_per_s": 5.0, "machine": "x"},
            {"case": "b", "rows": 1000, "million_per_s": 4.0, "bytes": 7},
            {"case": "b", "rows": 1000, "million_per_s": 2.0, "bytes": 7},
            {"case": "c", "ms": None},
        ]
    )
    assert found == {
        ("a", "rows 1,000", "seconds"): 1.0,
        ("b", "rows 1,000", "million_per_s"): 0.25,
        ("b", "rows 1,000", "#2", "million_per_s"): 0.5,
    }


def test_what_a_benchmark_concludes_does_not_tell_figures_apart() -> None:
    one, other = (pairs.times([{"case": "a", "type": "state", "advised_for": t, "ms": 1}]) for t in ("keys move", ""))
    assert one == other == {("a", "state", "ms"): 1.0}


def test_the_least_of_rounds_is_compared_and_what_is_worse_gets_more_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = Path("before"), Path("after")
    taken: list[Path] = []
    left = {before: [3.0, 2.0, 2.5], after: [4.0, 3.0, 2.0]}

    def run_once(tree: Path, name: str, arguments: object) -> dict[pairs.Key, float]:
        taken.append(tree)
        return {("x",): left[tree].pop(0), (f"only {tree}",): 1.0}

    monkeypatch.setattr(pairs, "run_once", run_once)
    found, single = pairs.compare("n", before, after, [], rounds=1, most=5, limit=1.05, at_once=False)
    assert taken == [before, after, after, before, before, after]
    assert [(p.before, p.after, p.ratio) for p in found] == [(2.0, 2.0, 1.0)]
    assert single == {("only before",), ("only after",)}


def test_trees_that_run_at_once_exchange_their_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = Path("before"), Path("after")
    both, taken = Barrier(2, timeout=HANGS_SECONDS), set[tuple[Path, int]]()

    def run_once(tree: Path, name: str, arguments: object, *, processor: int) -> dict[pairs.Key, float]:
        both.wait()
        taken.add((tree, processor))
        return {("x",): 1.0 if tree == before else 2.0}

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(pairs, "run_once", run_once)
    found, _ = pairs.compare("n", before, after, [], rounds=1, most=2, limit=1.05, at_once=True)
    assert taken == {(before, 0), (after, 1), (after, 0), (before, 1)}
    assert [p.ratio for p in found] == [2.0]


def test_running_at_once_on_one_processor_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    with pytest.raises(SystemExit):
        pairs.main(["data", "--before", str(tmp_path), "--at-once"])
    assert "--at-once needs two processors" in capsys.readouterr().err


def test_a_benchmark_without_figures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="printed no figures"):
        pairs.run_once(tmp_path, "none", [])
