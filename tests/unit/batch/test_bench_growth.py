"""The benchmark of growth measures what it says, and its checks fail when a batch did something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import bench_growth


def test_slopes_are_those_of_power_laws() -> None:
    for power in (0.0, 0.5, 1.0, 2.0):
        assert bench_growth.slope([(n, 3.0 * n**power) for n in (1, 10, 1000)]) == pytest.approx(power)
    assert bench_growth.slope([(1, 1.0)]) is None
    assert bench_growth.slope([(1, 0.0), (2, 1.0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "size"), [("partitions", 3), ("buckets", 4)])
def test_a_point_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: str, size: int) -> None:
    monkeypatch.setattr(bench_growth, "_KEYS", 60)
    found = bench_growth.upsert_known(bench_growth.filled(tmp_path, axis, size).uri, axis, size, 50)
    assert set(found) == set(bench_growth.FIGURES)
    assert found["requests"] > 0


def test_keys_that_the_table_does_not_have_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_growth, "_KEYS", 60)
    uri = bench_growth.filled(tmp_path, "partitions", 3).uri
    monkeypatch.setattr(bench_growth, "_KEYS", 90)
    with pytest.raises(AssertionError, match="60 of 90 known keys were found"):
        bench_growth.upsert_known(uri, "partitions", 3, 90)
