"""The benchmark runs and checks its answers, at a tiny size."""

from __future__ import annotations

import json

import pytest

from bench import bench_file_index


def test_every_case_runs_and_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_file_index.main(["--rows", "3000", "--rounds", "1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    cases = bench_file_index.cases(3000)
    assert {line["case"] for line in lines} >= {f"build {case.name}" for case in cases}
    assert len(lines) == sum(1 + len(case.questions) for case in cases)
    assert all((line["million_per_s"] or line["microseconds"]) > 0 for line in lines)


def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = bench_file_index.cases(3000)[3]
    right = case.build()
    other = bench_file_index.cases(2999)[3].build()
    assert right != other
    monkeypatch.setattr(bench_file_index.Case, "build", lambda self: other)
    with pytest.raises(Exception, match="for a file of 3000"):
        bench_file_index.check(case)
    monkeypatch.setattr(bench_file_index, "evaluate_container", lambda *args, **kwargs: bench_file_index.BitMap([1]))  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="are selected"):
        bench_file_index.check(case)
