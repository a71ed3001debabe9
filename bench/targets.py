"""What the project asks of its benchmarks, by issue, and how far a figure is from that and from the bare limit of the machine.

Machines differ twofold from hour to hour. Targets are seconds of a machine on which the bare limit (`bench_limit`) takes `BARE`
seconds; on another one a figure keeps its target when its ratio to the limit is no greater.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Seconds of the bare limit on the machine of the targets.
BARE = 5.3


@dataclass(frozen=True, slots=True)
class Target:
    """What one issue asks of one figure.

    issue       its number
    benchmark   name of the benchmark
    case        pattern of the figure's case, with what else tells it from others
    seconds     most by the clock
    cpu         most of the processors; None: not said
    """

    issue: int
    benchmark: str
    case: str
    seconds: float
    cpu: float | None = None


TARGETS = (
    Target(3, "upsert", r"load 6,001,215", 14.0),
    Target(17, "upsert", r"load 6,001,215", 4.5),
    Target(3, "upsert", r"upsert 600,121 into .*", 2.5),
    Target(17, "upsert", r"upsert 600,121 into .*", 1.1),
    Target(4, "compaction", r"full compaction", 6.0),
    Target(17, "compaction", r"full compaction", 3.0, 6.0),
    Target(4, "compaction", r"merge-on-read scan, one column", 1.2),
    Target(15, "changes", r"upsert and compact, lookup, deletion vectors", 4.0),
    Target(15, "changes", r"changelog after the fact", 2.0),
    Target(15, "changes", r"difference of two states", 1.5),
    Target(5, "point_lookup", r"(default|hash) first", 1.0),
    Target(5, "point_lookup", r"(default|hash) (new|same|missing) keys", 0.02),
    Target(17, "point_lookup", r"zstd-64k new keys", 0.03),
)
#: Benchmarks whose targets hang on the bare limit.
WITH_TARGETS = frozenset(t.benchmark for t in TARGETS)


def judged(benchmark: str, figures: Iterable[Mapping[str, Any]], bare: float | None) -> list[dict[str, Any]]:
    """Add to each figure how many times the bare limit it takes, and what each issue asks of it.

    bare   seconds of the bare limit in this run; None when it was not measured: seconds are compared as they are
    """
    return [_judged(benchmark, dict(figure), bare) for figure in figures]


def _judged(benchmark: str, figure: dict[str, Any], bare: float | None) -> dict[str, Any]:
    seconds, cpu = _seconds(figure, "seconds", "ms"), _seconds(figure, "cpu_seconds", "cpu_ms")
    if seconds is None or benchmark not in WITH_TARGETS:
        return figure
    if bare is not None:
        figure["of_bare_limit"] = round(seconds / bare, 4)
    case = " ".join(str(figure[k]) for k in ("case", "operation") if k in figure)
    slower = 1.0 if bare is None else bare / BARE
    found = [t for t in TARGETS if t.benchmark == benchmark and re.match(rf"{t.case}\b", case)]
    if found:
        figure["targets"] = "; ".join(
            _verdict(t, seconds / slower, None if cpu is None else cpu / slower) for t in found
        )
    return figure


def _verdict(target: Target, seconds: float, cpu: float | None) -> str:
    """Say whether seconds of the target's machine keep it."""
    asked = f"issue {target.issue}: {target.seconds:g} s"
    kept = seconds <= target.seconds
    if target.cpu is not None:
        asked += f", {target.cpu:g} CPU s"
        kept = kept and cpu is not None and cpu <= target.cpu
    return f"{asked} {'kept' if kept else f'MISSED ({seconds / target.seconds:.1f} times)'}"


def _seconds(figure: Mapping[str, Any], name: str, milliseconds: str) -> float | None:
    if figure.get(name) is not None:
        return float(figure[name])
    return float(figure[milliseconds]) / 1000 if figure.get(milliseconds) is not None else None
