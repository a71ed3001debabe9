"""The bare limit of the machine: read 6 M rows of lineitem in random order, sort them by key and write them, two processes.

Nothing of lakeidx: pyarrow reads and writes (Parquet, zstd level 1), NumPy sorts, Arrow takes. Machines differ twofold from hour
to hour; a figure of another benchmark says something as a ratio to this one. The result is checked: every file is in key order
and the files hold all rows.

    python -m bench.bench_limit [--lineitem FILE] [--rounds 3] [--processes 2] [--json]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.clock import children_seconds
from bench.figures import tell
from bench.lineitem import CACHE, KEYS, lineitem, plain


@dataclass(frozen=True, slots=True)
class Figure:
    """Best wall seconds of the rounds, and processor seconds of all processes in that round, their start included."""

    case: str
    rows: int
    seconds: float
    cpu_seconds: float
    load_average: float


def shuffled(source: Path, path: Path) -> Path:
    """Return all rows in random order, in row groups as lakeidx writes them."""
    rows = plain(pq.read_table(source))
    order = np.random.default_rng(1).permutation(rows.num_rows)
    pq.write_table(rows.take(pa.array(order)), path, row_group_size=131_072, compression="zstd", compression_level=1)
    return path


def sort_share(source: Path, folder: Path, processes: int, number: int) -> None:
    """Read every n-th row group, sort the rows by key, write them."""
    pa.set_cpu_count(1)
    file = pq.ParquetFile(source)
    rows = file.read_row_groups(list(range(number, file.num_row_groups, processes)), use_threads=False)
    first, second = (np.asarray(rows.column(n)) for n in KEYS)
    rows = rows.combine_chunks().take(pa.array(np.lexsort((second, first))))
    pq.write_table(rows, folder / f"{number}.parquet", compression="zstd", compression_level=1)


def check(folder: Path, rows: int) -> None:
    """Exit unless the files are sorted and complete."""
    found = 0
    for path in folder.glob("*.parquet"):
        order, line = (np.asarray(c).astype(np.int64) for c in pq.read_table(path, columns=list(KEYS)).columns)
        if not bool((np.diff(order * 16 + line) > 0).all()):
            sys.exit(f"{path} is not in key order")
        found += len(order)
    if found != rows:
        sys.exit(f"{found} rows of {rows}")


def run(source: Path, rounds: int, processes: int, folder: Path) -> Figure:
    """Return the best of some rounds; the processes are there before the time counts."""
    landing = shuffled(source, folder / "shuffled.parquet")
    rows = pq.read_metadata(landing).num_rows
    out = folder / "sorted"
    out.mkdir()
    best: Figure | None = None
    before = 0.0
    for _ in range(rounds):
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.map(abs, range(processes), chunksize=1)
            started = time.perf_counter()
            pool.map(partial(sort_share, landing, out, processes), range(processes), chunksize=1)
            seconds = time.perf_counter() - started
            pool.close()
            pool.join()
        check(out, rows)
        cpu = children_seconds()
        load = round(os.getloadavg()[0], 1)
        figure = Figure("read, sort, take, write", rows, round(seconds, 2), round(cpu - before, 2), load)
        before = cpu
        best = figure if best is None or figure.seconds < best.seconds else best
    assert best is not None
    return best


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--lineitem", type=Path, help="lineitem.parquet of TPC-H scale 1")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        figure = run(args.lineitem or lineitem(1, args.cache), args.rounds, args.processes, Path(folder))
    tell("The bare limit", [figure], as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
