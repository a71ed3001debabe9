from __future__ import annotations

import importlib
import inspect

from bench.targets import BARE, TARGETS, judged


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


def test_other_figures_stay_as_they_are() -> None:
    figures = [{"case": "murmur", "seconds": 1.0}]
    assert judged("codec", figures, BARE) == figures
    assert judged("upsert", [{"case": "load 6,001,215", "seconds": None}], BARE)[0].keys() == {"case", "seconds"}


def test_every_target_is_of_a_benchmark_that_has_the_case() -> None:
    for target in TARGETS:
        source = inspect.getsource(importlib.import_module(f"bench.bench_{target.benchmark}"))
        words = target.case.replace("(", "").replace(")", "").replace("|", " ").split()
        assert words[0] in source or words[-1] in source, target
