"""Run the benchmarks one after another and keep their figures: ``python -m bench [name ...] [--minutes 20] [-- ARGUMENTS]``.

Each ``bench/bench_<name>.py`` checks its results before it times them and fails when one is wrong. A run appends one line
per figure to ``bench/results/<name>.jsonl``, with the time, the versions, the machine (cores, memory, load) and the commit, and how
many times the bare limit of the machine it takes, which is measured in the same run.
Arguments after ``--`` go to the benchmark, which takes one name. ``python -m bench report [name ...]`` writes the newest runs into
docs/benchmarks.md (`bench/report.py`).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from bench.figures import show
from bench.report import RESULTS, report

HERE = Path(__file__).resolve().parent
#: Short ones and those of the main path first; the others as they come. Extra arguments keep a whole run short.
ORDER: Mapping[str, tuple[str, ...]] = {
    "limit": (),
    # Before anything that removes thousands of files, which makes new ones slow for minutes (its docstring says why).
    "small_batches": ("--seconds", "20"),
    "cold": (),
    "upsert": (),
    "compaction": (),
    "lookup_store": ("--rows", "10000,1000000"),
    "advice": ("--rounds", "3"),
    "growth": ("--most", "0.02"),
    "s3": (),
}
#: Begun by their name only: they take as long as all others together, or more disk.
ALONE = ("peers", "large", "spark")
PACKAGES = ("lakeidx", "pyarrow", "numpy", "numba", "pyspark")


def benchmarks() -> list[str]:
    """Return the names of all benchmarks, in the order they run."""
    found = {p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py")}
    return [n for n in ORDER if n in found] + sorted(found - set(ORDER))


def surroundings() -> dict[str, Any]:
    """Return what a figure depends on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{p: _version(p) for p in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(name: str, arguments: Sequence[str], seconds: float) -> tuple[list[dict[str, Any]], str | None]:
    """Run one benchmark; return its figures, and what went wrong, if anything did."""
    command = [sys.executable, str(HERE / f"bench_{name}.py"), *arguments, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return [], f"not done after {seconds:.0f} s"
    # A benchmark that finds a limit exceeded says its figures all the same; after a wrong result there are none.
    error = None
    if done.returncode != 0:
        error = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], error


def of_the_clock_alone(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the figures that have a time, and none of the processors: on a machine that does other work they tell nothing."""
    return [
        str(figure.get("case", figure))
        for figure in figures
        if _seconds(figure) is not None
        and not any(name.startswith("cpu") and value is not None for name, value in figure.items())
    ]


def with_limit(figure: Mapping[str, Any], bare: float) -> dict[str, Any]:
    """Add to a figure how many times the bare limit it takes."""
    seconds = _seconds(figure)
    return dict(figure) if seconds is None else {**figure, "of_bare_limit": round(seconds / bare, 4)}


def _seconds(figure: Mapping[str, Any]) -> float | None:
    if figure.get("seconds") is not None:
        return float(figure["seconds"])
    return float(figure["ms"]) / 1000 if figure.get("ms") is not None else None


def main(argv: Sequence[str]) -> int:
    """Run the named benchmarks, or all; or write what they found into the docs."""
    if argv[:1] == ["report"]:
        return report(argv[1:])
    at = list(argv).index("--") if "--" in argv else len(argv)
    own, passed = argv[:at], argv[at + 1 :]
    known = benchmarks()
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    parser.add_argument(
        "--minutes", type=float, default=20, help="time for all of them; what does not fit is not begun"
    )
    args = parser.parse_args(own)
    unknown = [n for n in args.names if n not in known]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if passed and len(args.names) != 1:
        parser.error("arguments after -- need exactly one name")
    console = Console(width=None if sys.stdout.isatty() else 200)
    RESULTS.mkdir(exist_ok=True)
    end = time.monotonic() + args.minutes * 60
    failed = False
    bare: float | None = None
    for name in dict.fromkeys(["limit", *args.names]) if args.names else [n for n in known if n not in ALONE]:
        left = end - time.monotonic()
        if left < 5:
            console.print(f"[yellow]{name}: not begun, the time is used up[/yellow]")
            continue
        around = surroundings()
        console.print(f"[dim]{name} ...[/dim]")
        figures, error = run(name, (passed if name in args.names else ()) or ORDER.get(name, ()), left)
        if error is not None:
            failed = True
            console.print(f"[red]{name}: {error}[/red]")
        if alone := of_the_clock_alone(figures):
            failed = True
            console.print(f"[red]{name}: no processor seconds beside those of the clock: {', '.join(alone)}[/red]")
        if name == "limit" and figures:
            bare = float(figures[0]["seconds"])
        if bare is not None:
            figures = [with_limit(figure, bare) for figure in figures]
        if figures:
            with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({**around, **figure}) + "\n" for figure in figures)
            show(console, name, figures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
