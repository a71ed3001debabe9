from __future__ import annotations

import importlib
import inspect
from typing import Any

from bench.targets import BARE, TARGETS, judged, of_the_clock_alone


def test_a_figure_says_what_each_issue_asks_of_it() -> None:
    (load,) = judged("upsert", [{"case": "load 6,001,215", "seconds": 9.0, "cpu_seconds": 15.0}], BARE)
    assert load["targets"] == "issue 3: 14 s kept; issue 17: 4.5 s MISSED (2.0 times)"
    assert load["of_bare_limit"] == round(9.0 / BARE, 4)


def test_on_a_slower_machine_it_is_the_ratio_that_counts() -> None:
    figure = {"case": "full compaction", "seconds": 5.9, "cpu_seconds": 11.9}
    (slow,) = judged("compaction", [figure], 2 * BARE)
    assert slow["targets"] == "issue 4: 6 s kept; issue 17: 3 s, 6 CPU s kept"
    (as_it_is,) = judged("compaction", [figure], None)
    assert as_it_is["targets"] == "issue 4: 6 s kept; issue 17: 3 s, 6 CPU s MISSED (2.0 times)"
    assert "of_bare_limit" not in as_it_is
    # The processors count as well as the clock.
    (busy,) = judged("compaction", [{**figure, "cpu_seconds": 12.1}], 2 * BARE)
    assert "MISSED" in busy["targets"]


def test_other_limits_than_seconds() -> None:
    case = {"case": "few against many", "seconds": 0.2, "cpu_seconds": 0.2}
    asked = "issue 17: 0.4 s, 100 mib"
    assert judged("hash_index", [{**case, "mib": 100}], BARE)[0]["targets"] == f"{asked} kept"
    # Memory does not grow with the slowness of a machine.
    assert judged("hash_index", [{**case, "mib": 150}], 2 * BARE)[0]["targets"] == f"{asked} MISSED (1.5 times)"
    assert judged("hash_index", [case], BARE)[0]["targets"] == f"{asked} MISSED (inf times)"
    rows = {"case": "fixed, one row 100 times a second", "ms": 9.0, "late_files": 5}
    steady, late = judged("small_batches", [{**rows, "per_second": 99.5}, {**rows, "per_second": 49.5}], None)
    assert steady["targets"] == "issue 17: 100 late_files, 99 per_second kept"
    assert late["targets"] == "issue 17: 100 late_files, 99 per_second MISSED (2.0 times)"
    for bare in (2 * BARE, BARE / 2):
        assert judged("small_batches", [{**rows, "per_second": 99.5}], bare)[0]["targets"].endswith("kept")
    (slow,) = judged("small_batches", [{**rows, "per_second": 49.7}], 2 * BARE)
    assert slow["targets"].endswith("kept")


def test_a_case_is_the_whole_case() -> None:
    for case in ("load 6,001,215 in random order", "load 6,001,215 in random order, fresh session", "load 6,001,215"):
        (load,) = judged("upsert", [{"case": case, "seconds": 9.0}], BARE)
        asked = {"load 6,001,215": 4.5, "load 6,001,215 in random order": 8.0}.get(case, 9.5)
        assert f"issue 17: {asked:g} s" in load["targets"]
        assert load["targets"].count("17") == 1


def test_milliseconds_and_operations() -> None:
    new, build = judged(
        "point_lookup",
        [
            {"case": "zstd-64k", "operation": "new keys", "ms": 99.0},
            {"case": "zstd-64k", "operation": "build", "ms": 9e3},
        ],
        None,
    )
    assert new["targets"] == "issue 17: 0.03 s MISSED (3.3 times)"
    assert "targets" not in build
    (hashed,) = judged("tagging", [{"case": "hash", "order": "random", "seconds": 0.2}], None)
    assert hashed["targets"] == "issue 8: 1.5 s kept"


def test_other_figures_stay_as_they_are() -> None:
    figures = [{"case": "murmur", "seconds": 1.0}]
    assert judged("engines", figures, BARE) == figures
    assert judged("upsert", [{"case": "load 6,001,215", "seconds": None}], BARE)[0].keys() == {"case", "seconds"}


def test_every_target_is_of_a_benchmark_that_has_the_case() -> None:
    for target in TARGETS:
        source = inspect.getsource(importlib.import_module(f"bench.bench_{target.benchmark}"))
        words = target.case.replace("(", "").replace(")", "").replace("|", " ").replace(",", "").split()
        assert words[0] in source or words[-1] in source, target


def test_a_target_of_a_size_counts_for_that_size() -> None:
    figure = {"case": "plan batch", "seconds": 4.0, "peak_mib": 100}
    (small,) = judged("metadata", [{**figure, "files": 100_000}], None)
    assert "targets" not in small
    (large,) = judged("metadata", [{**figure, "files": 1_000_000}], None)
    assert large["targets"] == "issue 13: 3 s, 500 peak_mib MISSED (1.3 times)"


def test_a_limit_of_nothing() -> None:
    figure = {"case": "lakeidx upsert, 100 rows", "seconds": 0.5}
    none, some = judged("cold", [{**figure, "kernels": 0}, {**figure, "kernels": 1}], None)
    assert none["targets"] == "issue 14: 1 s, 0 kernels kept; issue 17: 1 s, 0 kernels kept"
    assert "issue 17: 1 s, 0 kernels MISSED (inf times)" in some["targets"]


def test_what_was_not_timed_is_judged_by_what_it_has() -> None:
    case = {"case": "40 values of l_partkey, one by one", "seconds": None, "files": 505, "files_holding": 500}
    (kept,) = judged("scan", [{**case, "times_holding": 1.01}], BARE)
    assert kept["targets"] == "issue 7: 1.01 times_holding kept"
    assert "of_bare_limit" not in kept
    (missed,) = judged("scan", [{**case, "times_holding": 1.515}], BARE)
    assert missed["targets"] == "issue 7: 1.01 times_holding MISSED (1.5 times)"


def test_rates_follow_the_machine_as_seconds_do() -> None:
    figure = {
        "operation": "hash",
        "keys": "BIGINT",
        "rows": 9,
        "seconds": 1.0,
        "cpu_seconds": 1.0,
        "million_per_s": 24.0,
    }
    assert judged("codec", [figure], BARE)[0]["targets"] == "issue 3: 30 M/s MISSED (1.2 times)"
    assert judged("codec", [figure], 2 * BARE)[0]["targets"] == "issue 3: 30 M/s kept"
    assert "targets" not in judged("codec", [{**figure, "keys": "BIGINT, INT"}], BARE)[0]
    single = {"program": "lakeidx", "store": "hash", "codec": "none", "rows": 1_000_000, "values": "16 bytes"}
    single |= {"operation": "single", "million_per_s": 0.2}
    ours, theirs = judged("lookup_store", [single, {**single, "program": "1.4.2"}], BARE)
    assert ours["targets"] == "issue 5: 0.15 M/s kept"
    assert "targets" not in theirs


def test_a_time_without_processor_seconds_is_named() -> None:
    figures: list[dict[str, Any]] = [
        {"case": "a", "seconds": 1.0},
        {"case": "b", "ms": 1.0, "cpu_ms": None},
        {"case": "c", "seconds": 1.0, "cpu_seconds": 0.0},
        {"case": "d", "seconds": None, "files": 3},
    ]
    assert of_the_clock_alone(figures) == ["a", "b"]
