"""The benchmark runs and checks its results, at a tiny size."""

from __future__ import annotations

import json

import pytest

from bench import bench_assigner
from lakeidx.bucket_assignment import PartitionIndex


@pytest.mark.slow
def test_every_case_runs_and_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_assigner.main(["--rows", "3000", "--rounds", "1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["case"] for line in lines} >= {case.name for case in bench_assigner.cases(100)}
    assert all(line["rows"] == 3000 and line["million_per_s"] > 0 for line in lines)


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PartitionIndex.assign
    monkeypatch.setattr(PartitionIndex, "assign", lambda index, column: right(index, column) + 1)
    with pytest.raises(AssertionError, match="does not follow the rules"):
        bench_assigner.check(bench_assigner.cases(100)[1])
