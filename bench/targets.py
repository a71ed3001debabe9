"""What the project asks of its benchmarks, by issue, and how far a figure is from that and from the bare limit of the machine.

Machines differ twofold from hour to hour. Targets are seconds of a machine on which the bare limit (`bench_limit`) takes `BARE`
seconds; on another one a figure keeps its target when its ratio to the limit is no greater.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Seconds of the bare limit on the machine of the targets.
BARE = 5.3


@dataclass(frozen=True, slots=True)
class Target:
    """What one issue asks of one figure.

    issue       its number
    benchmark   name of the benchmark
    case        pattern of the figure's case, with what else tells it from others
    seconds     most by the clock; None: not said
    cpu         most of the processors; None: not said
    rate        least million rows a second; None: not said
    most        most of other fields of the figure, by name: no matter of the machine's speed
    least       least of other fields
    where       what other fields must be for the target to count
    """

    issue: int
    benchmark: str
    case: str
    seconds: float | None = None
    cpu: float | None = None
    rate: float | None = None
    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)


_MILLION = {"files": 1_000_000}
_MILLION_ENTRIES = {"program": "lakeidx", "codec": "none", "rows": 1_000_000, "values": "16 bytes"}
_SORT, _HASH = ({**_MILLION_ENTRIES, "store": store} for store in ("sort", "hash"))
_SMALL_PROCESSES = {"jvm_mib": 1536, "driver_mib": 1024, "worker_mib": 1024}
TARGETS = (
    Target(3, "codec", r"hash", rate=30.0, where={"keys": "BIGINT"}),
    Target(3, "codec", r"hash", rate=5.0, where={"keys": "STRING(16)"}),
    Target(3, "assigner", r"known", rate=25.0),
    Target(3, "assigner", r"new", rate=8.0),
    Target(3, "upsert", r"load 6,001,215", 14.0),
    Target(17, "upsert", r"load 6,001,215", 4.5),
    Target(3, "upsert", r"upsert 600,121 into 6,001,215", 2.5),
    Target(17, "upsert", r"upsert 600,121 into 6,001,215( in random order)?", 1.1),
    Target(17, "upsert", r"load 60,\d\d\d,\d\d\d", 55.0, most=_SMALL_PROCESSES),
    Target(17, "upsert", r"upsert 600,\d\d\d into 60,\d\d\d,\d\d\d", 2.5),
    Target(17, "large", r"lakeidx, load 60,\d\d\d,\d\d\d", 55.0, most=_SMALL_PROCESSES),
    Target(17, "large", r"lakeidx, upsert 600,\d\d\d into 60,\d\d\d,\d\d\d", 2.5),
    Target(17, "upsert", r"load 6,001,215 in random order", 8.0),
    Target(17, "upsert", r"load 6,001,215 in random order, fresh session", 9.5),
    Target(4, "compaction", r"full compaction", 6.0),
    Target(17, "compaction", r"full compaction", 3.0, 6.0),
    Target(4, "compaction", r"merge-on-read scan, one column", 1.2),
    Target(17, "compaction", r"merge-on-read scan, one column", most={"times_pyarrow": 3.0}),
    Target(17, "compaction", r"merge-on-read scan, all columns", most={"times_pyarrow": 1.8}),
    Target(17, "compaction", r"scan after compaction, all columns", most={"times_pyarrow": 1.1}),
    Target(15, "changes", r"upsert and compact, lookup, deletion vectors", 4.0),
    Target(15, "changes", r"changelog after the fact", 2.0),
    Target(15, "changes", r"difference of two states", 1.5),
    Target(5, "point_lookup", r"(default|hash) first", 1.0),
    Target(5, "point_lookup", r"(default|hash) (new|same|missing) keys", 0.02),
    Target(5, "lookup_store", r"build", rate=10.0, where=_SORT),
    Target(5, "lookup_store", r"build", rate=4.0, where=_HASH),
    Target(5, "lookup_store", r"hit", rate=2.0, where=_SORT),
    Target(5, "lookup_store", r"hit", rate=4.0, where=_HASH),
    Target(5, "lookup_store", r"miss", rate=15.0, where=_MILLION_ENTRIES),
    Target(5, "lookup_store", r"single", rate=0.15, where=_MILLION_ENTRIES),
    Target(17, "point_lookup", r"zstd-64k new keys", 0.03),
    Target(17, "point_lookup", r"(position|key) new keys", 0.15),
    Target(17, "hash_index", r"few against many", 0.4, most={"mib": 100}),
    Target(17, "hash_index", r"few against many, Java's files", 0.8, most={"mib": 100}),
    Target(17, "hash_index", r"all new", 2.5, most={"mib": 512}),
    Target(17, "small_batches", r"dynamic, 10,000 into 10,000,000", 0.06),
    Target(17, "small_batches", r"fixed, 10,000 into 10,000,000", 0.03),
    Target(17, "small_batches", r"(dynamic|fixed), 100 into 10,000,000", 0.02),
    # Level 0 is bounded when it never holds more than the rows of a second.
    Target(
        17, "small_batches", r".*, one row 100 times a second", least={"per_second": 99.0}, most={"late_files": 100}
    ),
    Target(16, "checks", r"dagster overhead", 1.2),
    Target(16, "checks", r"overhead and checks", 2.5),
    Target(6, "checks", r"full verification", 10.0),
    Target(8, "tagging", r"hash (ordered|random)", 1.5),
    Target(8, "tagging", r"bucket (ordered|random)", 0.5),
    Target(8, "tagging", r"bloom ordered", 2.0),
    Target(8, "tagging", r"bloom random", 8.0),
    Target(8, "tagging", r"simple (ordered|random)", 4.0),
    Target(8, "tagging", r"state (ordered|random)", 2.0),
    Target(8, "tagging", r"state build (ordered|random)", 20.0),
    Target(7, "scan", r"l_partkey = \d+", 0.15),
    Target(7, "scan", r"l_comment = .*", most={"files": 0}),
    Target(7, "scan", r"write [\d,]+ rows, bloom filter of l_partkey", most={"times_without": 1.05}),
    Target(7, "scan", r"\d+ values of l_partkey, one by one", most={"times_holding": 1.01}),
    Target(7, "scan", r"Spark data source, three columns", 2.9),
    Target(13, "metadata", r"plan (batch|scan)", 3.0, most={"peak_mib": 500}, where=_MILLION),
    Target(13, "metadata", r"whole view", 12.0, most={"peak_mib": 800}, where=_MILLION),
    Target(13, "metadata", r"commit", 3.0, most={"requests": 225}, where=_MILLION),
    Target(13, "metadata", r"plan compaction|compaction sensor", 5.0, where=_MILLION),
    Target(13, "scale", r"assignment, 4,000 buckets, 30 ms a request", 10.0),
    Target(13, "scale", r"assignment, 4,000 buckets, 30 ms a request, \d tasks", 10.0, most={"requests": 4_020}),
    Target(13, "scale", r"shuffle of 100,000 rows to 10,000 targets", 1.0, most={"mib": 10}),
    Target(13, "scale", r"function of a task, 20,000 buckets", most={"mib": 1}),
    Target(13, "scale", r"key state of 10,000,000 text keys is built", 8.0),
    Target(13, "scale", r"fresh process, 30 ms a request, 100,000 of 10,000,000 keys", 3.0, most={"read_share": 0.1}),
    Target(13, "scale", r"checks after 100,000 keys .* of 20,000,000", most={"times_upsert": 1.5, "mib": 300}),
    Target(14, "cold", r"import lakeidx", 0.05, most={"kernels": 0}),
    Target(14, "cold", r"lakeidx --help", 0.3, most={"kernels": 0}),
    Target(14, "cold", r"lakeidx (upsert|scan), 100 rows", 1.0, most={"kernels": 0}),
    Target(17, "cold", r"import lakeidx", 0.05),
    Target(17, "cold", r"lakeidx --help", 0.3),
    Target(17, "cold", r"lakeidx upsert, 100 rows", 1.0, most={"kernels": 0}),
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
    if benchmark not in WITH_TARGETS:
        return figure
    if bare is not None and seconds is not None:
        figure["of_bare_limit"] = round(seconds / bare, 4)
    case = " ".join(str(figure[k]) for k in ("case", "operation", "order") if k in figure)
    slower = 1.0 if bare is None else bare / BARE
    # Seconds of the machine of the targets.
    there = {
        **figure,
        "s": None if seconds is None else seconds / slower,
        "CPU s": None if cpu is None else cpu / slower,
        "M/s": (figure.get("million_per_s") or 0.0) * slower,
        # Asked for at a fixed pace, so a faster machine does no more.
        "per_second": (figure.get("per_second") or 0.0) * max(1.0, slower),
    }
    found = [
        t for t in TARGETS
        if t.benchmark == benchmark and re.fullmatch(t.case, case) and t.where.items() <= figure.items()
        # What was not timed is judged by what it has.
        and (seconds is not None or (t.seconds is None and t.cpu is None))
    ]  # fmt: skip
    if found:
        figure["targets"] = "; ".join(_verdict(t, there) for t in found)
    return figure


def _verdict(target: Target, found: Mapping[str, Any]) -> str:
    """Say whether a figure keeps a target; where it does not, how many times the limit its worst part is."""
    times = {}
    for name, most in {"s": target.seconds, "CPU s": target.cpu, **target.most}.items():
        if most is not None:
            times[f"{most:g} {name}"] = _times(found.get(name), most)
    for name, least in {**({} if target.rate is None else {"M/s": target.rate}), **target.least}.items():
        times[f"{least:g} {name}"] = least / found[name] if found.get(name) else float("inf")
    worst = max(times.values())
    return f"issue {target.issue}: {', '.join(times)} {'kept' if worst <= 1 else f'MISSED ({worst:.1f} times)'}"


def _times(found: float | None, most: float) -> float:
    """Return how many times the limit something is; of a limit of 0, all or nothing."""
    if found is None or (found and not most):
        return float("inf")
    return found / most if most else 0.0


def of_the_clock_alone(figures: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the figures that have a time, and none of the processors: on a machine that does other work they tell nothing."""
    return [
        str(figure.get("case", figure))
        for figure in figures
        if any(figure.get(name) is not None for name in ("seconds", "ms"))
        and not any(name.startswith("cpu") and value is not None for name, value in figure.items())
    ]


def _seconds(figure: Mapping[str, Any], name: str, milliseconds: str) -> float | None:
    if figure.get(name) is not None:
        return float(figure[name])
    return float(figure[milliseconds]) / 1000 if figure.get(milliseconds) is not None else None
