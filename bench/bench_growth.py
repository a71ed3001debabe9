"""What a batch of one size costs while its table grows: keys, buckets, partitions, data files; and what the batch's own size costs.

The same number of random known keys is upserted into tables that differ in one measure only; for data files, which a table of
metadata alone has (`bench.metadata_table`), a batch of 100 files is planned and committed. Each point is a process of its own,
whose result is checked. A slope is that of the log-log line through the points: 0 follows the batch, 1 follows the table.

    python bench/bench_growth.py [--axis NAME ...] [--most FACTOR] [--picture FILE] [--json] [--keep]

--most   leave out points above this share of the largest; 0.02 takes minutes instead of hours
--keep   make the run the one that docs/scaling.md shows, with its pictures; points of other axes stay as they are
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console

from bench.growth.page import KEPT, draw, on_terminal
from bench.growth.points import AXES, Measured, Point, filled, points, upsert_known

PICTURE = Path(__file__).resolve().parents[1] / "docs/images/growth.png"


def measure(point: Point) -> Measured:
    """Measure one point; its table is filled here, and measured in a new process."""
    with tempfile.TemporaryDirectory(prefix="lakeidx-growth-") as folder:
        uri = filled(Path(folder), point)
        command = [sys.executable, __file__, "--child", uri, "--point", json.dumps(Measured(point, {}, {}).to_json())]
        out = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if out.returncode:
        raise RuntimeError(out.stderr[-2000:])
    return Measured.from_json(json.loads(out.stdout.splitlines()[-1]))


def keep(measured: Sequence[Measured], load: float) -> None:
    """Write the run that docs/scaling.md shows."""
    old = json.loads(KEPT.read_text(encoding="utf-8"))["points"] if KEPT.exists() else []
    names = {m.point.name for m in measured}
    every = [m for m in map(Measured.from_json, old) if m.point.name not in names] + list(measured)
    order = list(AXES)
    every.sort(key=lambda m: (order.index(m.point.axis), m.point.index, m.point.size, m.point.batch))
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30)),
        "load_before": round(load, 1),
        "points": [m.to_json() for m in every],
    }
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(every, PICTURE)


def lines(point: Measured) -> Iterator[str]:
    """Yield a JSON line of a point, for `bench/results`."""
    yield json.dumps({"axis": point.point.axis, "size": point.point.size, "batch": point.point.batch,
                      "index": point.point.index, **point.whole})  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--axis", nargs="+", choices=tuple(AXES), default=list(AXES))
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        point = Measured.from_json(json.loads(asked.point)).point
        print(json.dumps(upsert_known(asked.child, point).to_json()))
        return 0
    load = os.getloadavg()[0]
    measured = []
    for point in (p for axis in asked.axis for p in points(axis, asked.most)):
        measured.append(measure(point))
        if asked.keep:
            # A long run that is cut off has kept what it had measured.
            keep(measured, load)
        if asked.json:
            print(*lines(measured[-1]), sep="\n", flush=True)
    if not asked.json:
        Console().print(on_terminal(measured))
    if asked.picture is not None:
        draw(measured, asked.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
