"""Compare a benchmark in two trees of lakeidx by processor time: ``python -m bench.pairs NAME ... --before TREE [-- ARGUMENTS]``.

The trees take turns, ``--rounds`` times, so that both see the same machine; of each figure the least is taken. While a figure is
more than ``--limit`` worse they go on, to ``--most`` rounds: a short kernel's least takes long to find.

In the benchmark's process, and in its workers, ``time.perf_counter`` is ``time.process_time``: on a machine that does other work
only that tells. What other child processes use (Spark, Java) is seen only where a benchmark counts it itself. TREE is another
checkout, e.g. of ``git worktree add``; both run with this interpreter and its installed packages. Exit status 1 when a figure is
more than ``--limit`` worse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
#: Python imports it at its start, in workers as well.
SITE = """
import importlib.util, os, sys, time
time.perf_counter = time.process_time
found = importlib.util.find_spec("lakeidx").origin
if not found.startswith(os.environ["BENCH_TREE"]):
    sys.exit(f"lakeidx would be imported from {found}")
"""
#: Counts that tell figures apart, beside all texts but those of the surroundings.
SIZES = frozenset({"rows", "keys", "columns", "hashes", "files", "batch", "table_rows"})
SURROUNDINGS = frozenset(
    {"machine", "processor", "python", "numpy", "pyarrow", "pandas", "limit", "note", "notes", "advised_for"}
)
_TIME = re.compile(r"(^|_)(seconds|ms|microseconds|us)$")
_RATE = re.compile(r"per_s(econd)?$")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """The least processor times of one figure in both trees, in the figure's own unit (rates: 1 / rate)."""

    key: Key
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """Return how many times as much the second tree takes."""
        return self.after / self.before


def times(figures: Sequence[Mapping[str, Any]]) -> dict[Key, float]:
    """Return the times of a run by what tells them apart; figures alike are numbered, and rates turned into times.

    Where a figure has processor time beside the time by the clock, only the former counts (the clock is the processor's, but not in
    child processes); where it has a median, the least.
    """
    found: dict[Key, float] = {}
    seen: Counter[Key] = Counter()
    for figure in figures:
        texts = [f"{v}" for k, v in figure.items() if isinstance(v, str) and k not in SURROUNDINGS]
        sizes = [f"{k} {v:,}" for k, v in figure.items() if k in SIZES and isinstance(v, int)]
        base = (*texts, *sizes)
        seen[base] += 1
        base = base if seen[base] == 1 else (*base, f"#{seen[base]}")
        values = {k: v for k, v in figure.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0}
        timed = {k: float(v) for k, v in values.items() if _TIME.search(k)}
        if not timed:
            timed = {k: 1 / v for k, v in values.items() if _RATE.search(k)}
        if any(k.startswith("median_") for k in timed):
            timed = {k: v for k, v in timed.items() if f"median_{k}" in timed}
        elif any("cpu" in k for k in timed):
            timed = {k: v for k, v in timed.items() if "cpu" in k}
        for name, value in timed.items():
            found[(*base, name.replace("cpu_", ""))] = value
    return found


def run_once(tree: Path, name: str, arguments: Sequence[str]) -> dict[Key, float]:
    """Run one benchmark of a tree and return its times; errors RuntimeError when it prints none."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(SITE, encoding="utf-8")
        command = [sys.executable, str(tree / f"bench/bench_{name}.py"), *arguments, "--json"]
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{tree}", "BENCH_TREE": str(tree)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tree)
    figures = [json.loads(t) for t in done.stdout.splitlines() if t.startswith("{")]
    if not figures:
        raise RuntimeError(f"{name} in {tree} printed no figures:\n{done.stderr[-2000:]}")
    return times(figures)


def compare(
    name: str,
    before: Path,
    after: Path,
    arguments: Sequence[str],
    *,
    rounds: int,
    most: int,
    limit: float,
) -> tuple[list[Pair], set[Key]]:
    """Run a benchmark in both trees by turns; return the pairs, and the figures that only one of them has.

    rounds, most   at least so many rounds each, and at most, while a pair's ratio is above the limit
    """
    least: dict[Path, dict[Key, float]] = {before: {}, after: {}}
    pairs: list[Pair] = []
    for round_ in range(most):
        trees = (before, after) if round_ % 2 == 0 else (after, before)
        for tree in trees:
            for key, value in run_once(tree, name, arguments).items():
                least[tree][key] = min(value, least[tree].get(key, value))
        pairs = [Pair(k, v, least[after][k]) for k, v in least[before].items() if k in least[after]]
        if round_ + 1 >= rounds and all(p.ratio <= limit for p in pairs):
            break
    return pairs, set(least[before]) ^ set(least[after])


def show(console: Console, name: str, pairs: Sequence[Pair], single: set[Key], limit: float) -> None:
    """Print the pairs that differ by more than the limit, and a line on the others."""
    view = Table("figure", "before", "after", "ratio", title=name, title_justify="left")
    for pair in sorted(pairs, key=lambda p: -p.ratio):
        if pair.ratio > limit:
            view.add_row(" · ".join(pair.key), f"{pair.before:.4g}", f"{pair.after:.4g}", f"{pair.ratio:.2f}")
    if view.row_count:
        console.print(view)
    worse = sum(p.ratio > limit for p in pairs)
    middle = statistics.median([p.ratio for p in pairs]) if pairs else float("nan")
    console.print(
        f"{name}: {len(pairs)} figures, median ratio {middle:.2f}, {worse} above {limit:.2f}, {len(single)} of one tree only"
    )


def main(argv: Sequence[str]) -> int:
    """Compare the named benchmarks."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(
        prog="python -m bench.pairs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="name")
    parser.add_argument("--before", type=Path, required=True, metavar="TREE")
    parser.add_argument("--after", type=Path, default=HERE, metavar="TREE", help="default: this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--json", action="store_true", help="one JSON object per figure")
    args = parser.parse_args(argv[:at])
    console = Console(width=None if sys.stdout.isatty() else 160)
    worse = False
    for name in args.names:
        trees = (args.before.resolve(), args.after.resolve())
        how = {"rounds": args.rounds, "most": max(args.rounds, args.most), "limit": args.limit}
        pairs, single = compare(name, *trees, argv[at + 1 :], **how)
        worse |= any(p.ratio > args.limit for p in pairs)
        if args.json:
            print("\n".join(json.dumps({"bench": name, "figure": p.key, "ratio": round(p.ratio, 3)}) for p in pairs))
        else:
            show(console, name, pairs, single, args.limit)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
