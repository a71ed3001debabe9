"""Flame graphs of a benchmark, one per Python process: ``make profile CASE=upsert ARGUMENTS="--sizes 600000"``.

py-spy looks a hundred times a second at what each process runs, Spark's Python workers included (the JVM is none of Python's). The
graphs are SVG files that need no script: a box is a function at a line, as wide as its share of the samples; what it calls stands
below it; the pointer shows the share. ``index.html`` lists the processes, those that worked most first.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
_PROCESS = re.compile(r'process (\d+):"((?:[^"]|"(?!;|$))*)"(?:;|$)')
#: Of the samples of a process: narrower boxes are left out.
_LEAST_SHARE = 0.001
_LEAST_SAMPLES = 5
_WIDTH, _ROW, _LETTER = 1400.0, 17, 6.6


@dataclass(slots=True)
class Box:
    """A function at a line below its callers.

    samples   how often it was seen, or what it calls
    """

    samples: int = 0
    calls: dict[str, Box] = field(default_factory=dict)


@dataclass(slots=True)
class Process:
    """A process and what it ran."""

    number: int
    command: str
    root: Box = field(default_factory=Box)


def read_samples(lines: Iterable[str]) -> list[Process]:
    """Sort py-spy's raw samples by process; those with most samples first.

    lines    the processes from the first one to that of the sample, its stack, frames parted by ``;``, and how often it was seen
    """
    found: dict[int, Process] = {}
    for line in lines:
        stack, _, count = line.rstrip("\n").rpartition(" ")
        at, process = 0, None
        while match := _PROCESS.match(stack, at):
            at = match.end()
            process = found.setdefault(int(match[1]), Process(int(match[1]), match[2]))
        if process is None or not count.isdigit():
            raise ValueError(f"no line of py-spy's raw format: {line!r}")
        box = process.root
        box.samples += int(count)
        for frame in filter(None, stack[at:].split(";")):
            box = box.calls.setdefault(frame, Box())
            box.samples += int(count)
    return sorted(found.values(), key=lambda p: -p.root.samples)


def flame_graph(process: Process) -> str:
    """Return the SVG of a process."""
    boxes: list[str] = []
    depth = _draw(process.root, "all", 0.0, 0, process.root.samples, boxes)
    height = (depth + 2) * _ROW
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height}" font-family="monospace" font-size="11">'
    title = html.escape(f"{process.number}: {process.command}"[:200])
    return "\n".join([head, f'<text x="4" y="12">{title}</text>', *boxes, "</svg>", ""])


def _draw(box: Box, name: str, x: float, row: int, whole: int, out: list[str]) -> int:
    """Add a box and what it calls, widest first; gives the lowest row."""
    width = _WIDTH * box.samples / whole
    share = 100 * box.samples / whole
    shown = html.escape(name[: max(0, int(width / _LETTER) - 1)])
    # Colours from yellow to red, by name: the same function has the same one in every graph.
    hue = sum(name.partition(" (")[0].encode()) % 55
    y = (row + 1) * _ROW
    out.append(
        f'<g><title>{html.escape(name)}: {box.samples} samples, {share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}"'
        f' height="{_ROW - 1}" fill="hsl({hue},85%,65%)"/><text x="{x + 2:.1f}" y="{y + 12}">{shown}</text></g>'
    )
    lowest = row
    for called, inner in sorted(box.calls.items(), key=lambda item: -item[1].samples):
        if inner.samples >= whole * _LEAST_SHARE:
            lowest = max(lowest, _draw(inner, called, x, row + 1, whole, out))
            x += _WIDTH * inner.samples / whole
    return lowest


def write_graphs(processes: Sequence[Process], folder: Path) -> list[Path]:
    """Write a graph per process that was seen at work, and a page that lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    written, rows = [], []
    for process in processes:
        if process.root.samples < _LEAST_SAMPLES:
            continue
        path = folder / f"{process.number}.svg"
        path.write_text(flame_graph(process), encoding="utf-8")
        written.append(path)
        link = f'<a href="{path.name}">{process.number}</a>'
        rows.append(
            f"<tr><td>{link}</td><td>{process.root.samples}</td><td>{html.escape(process.command[:160])}</td></tr>"
        )
    head = "<tr><th>process</th><th>samples</th><th>command</th></tr>"
    page = f"<!doctype html><meta charset='utf-8'><title>Profile</title><table>{head}{''.join(rows)}</table>\n"
    (folder / "index.html").write_text(page, encoding="utf-8")
    return written


def record(case: str, arguments: Sequence[str], raw: Path, rate: int) -> None:
    """Run a benchmark under py-spy; its samples go to a file."""
    tool = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if tool is None:
        sys.exit("py-spy is not there: make install-dev")
    command = [tool, "record", "--subprocesses", "--rate", str(rate), "--format", "raw", "--output", str(raw), "--"]
    program = [sys.executable, str(HERE / f"bench_{case}.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run([*command, *program], env=environment, check=False)
    if done.returncode != 0 or not raw.exists():
        sys.exit(
            f"no samples: py-spy or the benchmark ended with {done.returncode}; it may need the right to trace processes"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    given = list(sys.argv[1:] if argv is None else argv)
    at = given.index("--") if "--" in given else len(given)
    cases = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m bench.flame_graphs", description=str(__doc__).splitlines()[0])
    parser.add_argument("case", choices=cases)
    parser.add_argument("--rate", type=int, default=100, help="samples a second")
    parser.add_argument("--output", type=Path, help="folder; default bench/results/profile-CASE")
    args = parser.parse_args(given[:at])
    folder = args.output or HERE / "results" / f"profile-{args.case}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    raw = folder / "samples.txt"
    record(args.case, given[at + 1 :], raw, args.rate)
    with raw.open(encoding="utf-8") as lines:
        written = write_graphs(read_samples(lines), folder)
    print(f"{len(written)} processes: {folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
