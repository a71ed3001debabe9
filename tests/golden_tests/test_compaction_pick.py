"""Compaction decisions against the released Java: picks, interval partition, levels (compaction-pick.jsonl)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakeidx.compaction.levels import build_levels
from lakeidx.compaction.pick import (
    CompactUnit,
    LevelRun,
    OffPeak,
    PickMoment,
    PickOptions,
    pick_full,
    pick_universal,
    pick_up_level_0,
)
from lakeidx.table.intervals import sections_of
from tests.conftest import GOLDEN
from tests.kit.compaction_files import INT_KEY, a_file

pytestmark = pytest.mark.golden


def cases(kind: str) -> list[Any]:
    lines = (GOLDEN / "compaction-pick.jsonl").read_text(encoding="utf-8").split("\n")
    read = [json.loads(line) for line in lines if line]
    return [pytest.param(case, id=str(case["id"])) for case in read if case["kind"] == kind]


def as_json(unit: CompactUnit | None) -> Any:
    if unit is None:
        return None
    names = [f.file_name for f in unit.files]
    return {"output_level": unit.output_level, "files": names, "file_rewrite": unit.file_rewrite}


def test_there_are_cases() -> None:
    for kind in ("pick", "interval-partition", "levels"):
        assert cases(kind), kind


@pytest.mark.parametrize("case", cases("pick"))
def test_pick(case: dict[str, Any]) -> None:
    ratio = case["offpeak_ratio"]
    options = PickOptions(
        max_size_amplification_percent=case["max_size_amplification_percent"],
        size_ratio_percent=case["size_ratio"],
        run_trigger=case["num_run_compaction_trigger"],
        total_size_threshold=case["total_size_threshold"],
        incremental_size_threshold=case["incremental_size_threshold"],
        off_peak=None if ratio is None else OffPeak(start_hour=0, end_hour=24, ratio_percent=ratio),
    )
    moment = PickMoment(hour=12)
    levels = case["num_levels"]
    runs = [LevelRun(r["level"], tuple(a_file(n, r["level"], size=s) for n, s in r["files"])) for r in case["runs"]]
    assert as_json(pick_universal(levels, runs, options, moment=moment)) == case["universal"]
    assert as_json(pick_up_level_0(levels, runs, options, moment=moment)[0]) == case["force_up_level0"]
    full = pick_full(levels, runs, force_rewrite=case["force_rewrite_all_files"])
    assert as_json(full) == case["full_compaction"]
    attempts = 0
    for expected in case.get("force_up_level0_sequence", ()):
        unit, attempts = pick_up_level_0(
            levels, runs, options, moment=moment, max_interval=case["max_compact_interval"], attempts=attempts
        )
        assert as_json(unit) == expected


@pytest.mark.parametrize("case", cases("interval-partition"))
def test_interval_partition(case: dict[str, Any]) -> None:
    files = [a_file(name, 0, low, high) for name, low, high in case["files"]]
    names = [[[f.file_name for f in run] for run in section] for section in sections_of(files, INT_KEY)]
    assert names == case["sections"]


@pytest.mark.parametrize("case", cases("levels"))
def test_levels(case: dict[str, Any]) -> None:
    files = []
    for f in case["files"]:
        made = a_file(
            f["file"],
            f["level"],
            f["min_key"],
            f["max_key"],
            size=f["size"],
            sequence=f["max_seq"],
            created=f["creation_time"],
        )
        files.append(replace(made, min_sequence_number=f["min_seq"]))
    levels = build_levels(files, INT_KEY, num_levels=case["num_levels_in"])
    assert levels.num_levels == case["num_levels"]
    assert levels.max_level == case["max_level"]
    assert len(levels.runs) == case["number_of_sorted_runs"]
    assert levels.non_empty_highest_level == case["non_empty_highest_level"]
    runs = [{"level": r.level, "files": [[f.file_name, f.file_size] for f in r.files]} for r in levels.runs]
    assert runs == case["runs"]
