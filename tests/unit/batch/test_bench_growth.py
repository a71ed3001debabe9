"""The benchmark of growth measures what it says, its checks fail when a batch did something else, and its model is exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.growth.driver import KNOWN, check_rows, filled_for_rows, row_points, upsert_rows_with
from bench.growth.model import EACH, ROWS, fit, stage_costs, type_costs
from bench.growth.page import follows_table, kept, markdown_check, markdown_rows, markdown_targets, number, slopes
from bench.growth.points import AXES, FIGURES, STAGES, Measured, Point, filled, points, slope, upsert_known
from lakeidx.tasks.runner import LocalRunner


def test_slopes_are_those_of_power_laws() -> None:
    for power in (0.0, 0.5, 1.0, 2.0):
        assert slope([(n, 3.0 * n**power) for n in (1, 10, 1000)]) == pytest.approx(power)
    assert slope([(1, 1.0)]) is None
    assert slope([(1, 0.0), (2, 1.0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "buckets", "partitions"),
    [
        (Point("partitions", 3, keys=60, batch=50, partitions=3), 3, 3),
        (Point("buckets", 4, keys=60, batch=50, buckets=4), 4, 1),
        (Point("types", 60, keys=60, batch=50, index="bloom"), 1, 1),
    ],
)
def test_a_point_is_measured(tmp_path: Path, point: Point, buckets: int, partitions: int) -> None:
    found = upsert_known(filled(tmp_path, point), point)
    assert set(found.whole) == set(FIGURES)
    assert (found.work["rows"], found.work["keys"]) == (50, 60)
    assert (found.work["buckets"], found.work["partitions"]) == (buckets, partitions)
    assert list(found.stages) == list(STAGES)
    assert sum(s["requests"] for s in found.stages.values()) == found.whole["requests"] > 0
    assert Measured.from_json(found.to_json()) == found


def test_keys_that_the_table_does_not_have_are_found_out(tmp_path: Path) -> None:
    point = Point("partitions", 3, keys=60, batch=90, partitions=3)
    uri = filled(tmp_path, point)
    with pytest.raises(AssertionError, match="60 of 90 known keys were found"):
        upsert_known(uri, replace(point, keys=90))


def test_a_smaller_run_leaves_out_the_largest_points() -> None:
    assert [p.size for p in points("keys", 0.3)] == [1_000_000, 4_000_000, 16_000_000]
    assert len(points("types", 0.01)) == len(AXES["types"])


def _measured(axis: str, cpu: dict[str, float], **work: int) -> Measured:
    whole = {"cpu": sum(cpu.values()), "requests": 7.0}
    stages = {stage: {"cpu": seconds, "requests": 7.0} for stage, seconds in cpu.items()}
    full = {"rows": 0, "keys": 0, "buckets": 0, "partitions": 0, "files": 0, **work}
    return Measured(Point(axis, work.get(axis, 1), index="bloom" if axis == "types" else "hash"), full, whole, stages)


def test_constants_are_found_again() -> None:
    work = [{"rows": r, "buckets": b} for r in (10, 1000, 100_000) for b in (1, 50, 2000)]
    found = fit(("rows", "buckets"), work, [0.5 + 2e-3 * w["rows"] + 0.1 * w["buckets"] for w in work])
    assert found.constants == pytest.approx({EACH: 0.5, "rows": 2e-3, "buckets": 0.1})
    assert found.of({"rows": 1_000_000, "buckets": 10}) == pytest.approx(2001.5)
    with pytest.raises(ValueError, match="above 0"):
        fit(("rows",), [{"rows": 1}], [0.0])


def test_the_model_is_not_fitted_to_the_point_it_is_checked_with() -> None:
    grown = [_measured("keys", {"bucket_assignment": 1 + 1e-6 * k}, keys=k, rows=10) for k in (10**6, 10**7, 10**8)]
    odd = [_measured("held out", {"bucket_assignment": 77.0}, keys=2 * 10**6, rows=10)]
    types = [_measured("types", {"bucket_assignment": 3e-6 * k}, keys=k, rows=10) for k in (10**6, 10**7)]
    cost = stage_costs(grown + odd + types)["bucket_assignment"]["cpu"]
    assert cost.of(odd[0].work) == pytest.approx(3.0, rel=0.01)
    assert "| bucket_assignment | CPU s | 77.0 | 3.00 |" in markdown_check(grown + odd + types)
    assert type_costs(grown + types)["bloom"].of({"rows": 0, "keys": 10**6}) == pytest.approx(3.0, rel=0.01)
    # The line through 2, 11 and 101 s at 1, 10 and 100 million keys.
    assert slopes(grown, "keys")["cpu"] == pytest.approx(0.85, abs=0.01)
    assert ("keys", "cpu") in follows_table(grown)
    assert ("keys", "requests") not in follows_table(grown)


def test_the_kept_run_has_every_axis_and_stage() -> None:
    run, measured = kept()
    assert run["cores"] >= 1
    assert {m.point.axis for m in measured} - {ROWS} == set(AXES)
    assert {m.point.index for m in measured if m.point.axis != ROWS} == {p.index for p in AXES["types"]}
    assert set(stage_costs(measured)) == set(STAGES)
    assert all(stage in markdown_targets(measured) for stage in STAGES)


def _upsert_rows(folder: Path, point: Point) -> Measured:
    uri = filled_for_rows(folder, point, hbase_port=1)
    landing = sorted(map(str, (folder / "landing").iterdir()))
    return upsert_rows_with(uri, point, LocalRunner(2), landing)


@pytest.mark.slow
@pytest.mark.parametrize("index", ["hash", "inmemory", "state"])
def test_a_batch_of_many_rows_is_measured_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    monkeypatch.setattr("bench.growth.driver._FILE_ROWS", 2_000)
    monkeypatch.setattr("bench.growth.driver.BUDGET", 1 << 20)
    point = Point(ROWS, 50_000, keys=500, batch=50_000, index=index)
    found = _upsert_rows(tmp_path, point)
    assert set(found.whole) == {"cpu", "seconds", "peak_mib"}
    assert found.work["rows"] == 50_000
    assert Measured.from_json(found.to_json()) == found
    assert f"| {index} | 50,000 |" in markdown_rows([found])
    with pytest.raises(AssertionError, match="50000, "):
        check_rows(f"{tmp_path}/wh/b.db/{point.name}", replace(point, batch=50_001))


def test_every_type_has_a_point_of_every_size() -> None:
    found = row_points(1.0, hbase_port=1)
    assert {(p.size, p.batch, p.keys) for p in found} == {(n, n, KNOWN) for n in (5_000_000, 20_000_000, 80_000_000)}
    assert {p.index for p in found} == {p.index for p in AXES["types"]}
    assert {p.size for p in row_points(0.07, hbase_port=1)} == {5_000_000}


def test_numbers_have_three_digits_that_mean_something() -> None:
    assert [number(v) for v in (0, 0.00012, 0.012, 3.14159, 31.4159, 31415.9)] == [
        "0",
        "1.2e-04",
        "0.01",
        "3.14",
        "31.4",
        "31,416",
    ]
