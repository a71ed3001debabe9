"""Commands in fresh processes: what a first look costs before any work is done.

Each is a process of its own; what it printed or wrote is checked before it counts. "import lakeidx" is without the interpreter's
own start. Compiled kernels and bytecode of the modules are there, as after an installation: two runs that do not count
(rows that are new, and that are known) make them, also where ``PYTHONDONTWRITEBYTECODE``
is set, and none that counts may compile a kernel.

    python -m bench.bench_cold [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.clock import children_seconds
from bench.figures import tell
from lakeidx.api import Table

ROWS = 100
_LAKEIDX = [sys.executable, "-c", "import sys; from lakeidx.cli.main import main; sys.exit(main())"]


@dataclass(frozen=True, slots=True)
class Figure:
    """Least wall and processor seconds of the rounds; files of kernels that counted rounds compiled."""

    case: str
    seconds: float
    cpu_seconds: float
    kernels: int
    load_average: float


def measure(
    case: str, command: Sequence[str], rounds: int, right: Callable[[str], bool], less: tuple[float, float] = (0.0, 0.0)
) -> Figure:
    """Run a command some times, each with bytecode and compiled kernels; `less` is taken off the seconds."""
    wall: list[float] = []
    cpu: list[float] = []
    found = [0]
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as kept:
        made = {"PYTHONPYCACHEPREFIX": f"{kept}/bytecode", "NUMBA_CACHE_DIR": f"{kept}/kernels"}
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **made}
        for counts in (False, False, *[True] * rounds):
            used, begun = children_seconds(), time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            if counts:
                wall.append(time.perf_counter() - begun)
                cpu.append(children_seconds() - used)
            assert right(done.stdout), f"{case}: {done.stdout}"
            found.append(sum(1 for _ in Path(kept, "kernels").rglob("*.nbc")))
    kernels = found[-1] - found[2]
    return Figure(
        case, round(max(0.0, min(wall) - less[0]), 3), round(max(0.0, min(cpu) - less[1]), 3), kernels,
        round(os.getloadavg()[0], 1),
    )  # fmt: skip


def cases(folder: Path, rounds: int) -> list[Figure]:
    """Measure all of them."""
    landing = folder / "rows.parquet"
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64()), "v": [f"v{i}" for i in range(ROWS)]}), landing)
    uri = f"{folder}/wh/d.db/t"
    fields = [{"name": "id", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "STRING"}]
    Table.create(uri, {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "-1"}})
    start = measure("python", [sys.executable, "-c", "pass"], rounds, lambda said: not said)
    bare = (start.seconds, start.cpu_seconds)

    def upserted(said: str) -> bool:
        report = json.loads(said)
        written = int(report["inserts"]) + int(report["updates"])
        return written == ROWS and Table.open(uri).scan().to_arrow().num_rows == ROWS

    return [
        start,
        measure("import lakeidx", [sys.executable, "-c", "import lakeidx"], rounds, lambda said: not said, bare),
        measure("lakeidx --help", [*_LAKEIDX, "--help"], rounds, lambda said: "upsert" in said),
        measure("lakeidx upsert, 100 rows", [*_LAKEIDX, "upsert", uri, str(landing)], rounds, upserted),
        measure(
            "lakeidx scan, 100 rows", [*_LAKEIDX, "scan", uri], rounds, lambda said: len(said.splitlines()) == ROWS
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print; exit status 1 when a command compiled kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        figures = cases(Path(folder), args.rounds)
    tell("Fresh processes", figures, as_json=args.json)
    return int(any(f.kernels for f in figures))


if __name__ == "__main__":
    sys.exit(main())
