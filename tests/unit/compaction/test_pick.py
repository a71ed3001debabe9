"""Picking a compaction: what golden data does not reach (clock, hours, counters), and the order of the rules."""

from __future__ import annotations

import pytest

from lakeidx.compaction.pick import (
    CompactUnit,
    LevelRun,
    OffPeak,
    PickMoment,
    PickOptions,
    PickReason,
    pick_force_level_0,
    pick_full,
    pick_universal,
    pick_up_level_0,
)
from tests.kit.compaction_files import a_file

HOUR_MS = 3_600_000


def runs_of(*level_and_size: tuple[int, int]) -> list[LevelRun]:
    """One run per pair, named f0, f1, ... in order."""
    return [LevelRun(level, (a_file(f"f{i}", level, size=size),)) for i, (level, size) in enumerate(level_and_size)]


def picked(unit: CompactUnit | None) -> tuple[int, int, PickReason] | None:
    """(number of files, output level, reason)."""
    return None if unit is None else (len(unit.files), unit.output_level, unit.reason)


@pytest.mark.parametrize(
    ("now", "last", "expected"),
    [
        (10 * HOUR_MS, None, (2, 5, PickReason.FULL_INTERVAL)),
        (10 * HOUR_MS, 8 * HOUR_MS - 1, (2, 5, PickReason.FULL_INTERVAL)),
        (10 * HOUR_MS, 8 * HOUR_MS, None),
        (None, None, None),
    ],
)
def test_the_interval_passes_when_more_than_it_went_by(
    now: int | None, last: int | None, expected: tuple[int, int, PickReason] | None
) -> None:
    options = PickOptions(full_interval_ms=2 * HOUR_MS)
    moment = PickMoment(now_ms=now, last_full_compaction_ms=last)
    assert picked(pick_universal(6, runs_of((0, 10), (5, 10)), options, moment=moment)) == expected


def test_size_thresholds_are_exclusive() -> None:
    runs = runs_of((0, 10), (4, 20), (5, 70))
    assert picked(pick_universal(6, runs, PickOptions(total_size_threshold=101))) == (3, 5, PickReason.TOTAL_SIZE)
    assert pick_universal(6, runs, PickOptions(total_size_threshold=100)) is None
    below = PickOptions(incremental_size_threshold=29)
    assert picked(pick_universal(6, runs, below)) == (3, 5, PickReason.INCREMENTAL_SIZE)
    assert pick_universal(6, runs, PickOptions(incremental_size_threshold=30)) is None


@pytest.mark.parametrize(
    ("start", "end", "inside", "outside"),
    [(1, 5, (1, 2, 4), (0, 5, 23)), (22, 3, (22, 23, 0, 2), (3, 12, 21)), (0, 24, (0, 12, 23), ())],
)
def test_off_peak_hours_may_pass_midnight(
    start: int, end: int, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    hours = OffPeak(start_hour=start, end_hour=end, ratio_percent=30)
    assert [hours.ratio_at(h) for h in inside] == [30] * len(inside)
    assert [hours.ratio_at(h) for h in outside] == [0] * len(outside)


def test_amplification_comes_before_ratio_and_count() -> None:
    runs = runs_of(*[(0, 100)] * 6, (5, 200))
    assert picked(pick_universal(6, runs, PickOptions())) == (7, 5, PickReason.SIZE_AMPLIFICATION)
    big_last = runs_of(*[(0, 100)] * 6, (5, 100_000))
    assert picked(pick_universal(6, big_last, PickOptions())) == (6, 4, PickReason.SIZE_RATIO)
    growing = runs_of(*[(0, 100 * 3**i) for i in range(6)], (5, 10**9))
    # Three runs by count; level 0 is no output, so on to the first run above it, which is the last one.
    assert picked(pick_universal(6, growing, PickOptions())) == (7, 5, PickReason.RUN_COUNT)
    above = runs_of(*[(level, 100 * 3**level) for level in range(5)], (6, 10**9), (7, 10**10))
    assert picked(pick_universal(9, above, PickOptions())) == (3, 2, PickReason.RUN_COUNT)


def test_nothing_to_pick() -> None:
    assert pick_universal(6, [], PickOptions()) is None
    assert pick_universal(6, runs_of((0, 10), (5, 10)), PickOptions()) is None
    assert pick_force_level_0(6, runs_of((5, 10)), PickOptions()) is None
    assert pick_full(6, []) is None
    assert pick_full(6, runs_of((5, 10))) is None


def test_one_run_never_compacts_early() -> None:
    options = PickOptions(full_interval_ms=1, total_size_threshold=1 << 40, incremental_size_threshold=0)
    assert pick_universal(6, runs_of((0, 10)), options, moment=PickMoment(now_ms=10)) is None


def test_a_universal_pick_does_not_count_as_attempt() -> None:
    runs = runs_of(*[(0, 100)] * 5)
    unit, attempts = pick_up_level_0(6, runs, PickOptions(), max_interval=3, attempts=2)
    assert unit is not None
    assert attempts == 2
