"""What a batch of one size costs while its table grows: keys, buckets, partitions, data files; and what the batch's own size costs.

The same number of random known keys is upserted into tables that differ in one measure only; for data files, which a table of
metadata alone has (`bench.metadata_table`), a batch of 100 files is planned and committed. Each point is a process of its own,
whose result is checked. A slope is that of the log-log line through the points: 0 follows the batch, 1 follows the table.

    python -m bench.bench_growth [--axis NAME ...] [--most FACTOR] [--types NAME ...] [--picture FILE] [--json] [--keep]

Axis `rows` is begun by its name only: batches of 5, 20 and 80 million narrow rows through Spark, for every index type, with a
budget of 128 MiB in the driver and answers of tasks up to 16 MiB; peak_mib is what the driver takes above what it had before.

--most   leave out points above this share of the largest; 0.02 takes minutes instead of hours
--types  of axis `rows` or `types` only these; `hbase` where its Thrift server (deploy/hbase/hbase.sh) listens on --hbase-port
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

from bench.growth.driver import filled_for_rows, row_points, upsert_rows
from bench.growth.model import ROWS
from bench.growth.page import KEPT, draw, on_terminal
from bench.growth.points import AXES, Measured, Point, filled, points, upsert_known

#: Of one point: 80 million keys through a server of `hbase` take hours.
_MOST_SECONDS = 4 * 3600
PICTURE = Path(__file__).resolve().parents[1] / "docs/images/growth.png"


def measure(point: Point, hbase_port: int) -> Measured:
    """Measure one point; its table is filled here, and measured in a new process."""
    with tempfile.TemporaryDirectory(prefix="lakeidx-growth-") as folder:
        by_rows = point.axis == ROWS
        uri = filled_for_rows(Path(folder), point, hbase_port) if by_rows else filled(Path(folder), point)
        command = [
            sys.executable,
            "-m",
            "bench.bench_growth",
            "--child",
            uri,
            "--point",
            json.dumps(Measured(point, {}, {}).to_json()),
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
    if out.returncode:
        raise RuntimeError(out.stderr[-2000:])
    return Measured.from_json(json.loads(out.stdout.splitlines()[-1]))


def keep(measured: Sequence[Measured], load: float) -> None:
    """Write the run that docs/scaling.md shows."""
    old = json.loads(KEPT.read_text(encoding="utf-8"))["points"] if KEPT.exists() else []
    names = {m.point.name for m in measured}
    every = [m for m in map(Measured.from_json, old) if m.point.name not in names] + list(measured)
    order = [*AXES, ROWS]
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


def _points(asked: argparse.Namespace) -> Iterator[Point]:
    for axis in asked.axis:
        found = row_points(asked.most, asked.hbase_port) if axis == ROWS else points(axis, asked.most)
        yield from (p for p in found if asked.types is None or p.index in asked.types)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--axis", nargs="+", choices=(*AXES, ROWS), default=list(AXES))
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--types", nargs="+")
    parser.add_argument("--hbase-port", type=int, default=9090)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        point = Measured.from_json(json.loads(asked.point)).point
        done = upsert_rows(asked.child, point) if point.axis == ROWS else upsert_known(asked.child, point)
        print(json.dumps(done.to_json()))
        return 0
    load = os.getloadavg()[0]
    measured = []
    for point in _points(asked):
        measured.append(measure(point, asked.hbase_port))
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
