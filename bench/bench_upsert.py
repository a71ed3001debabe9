"""A whole batch on Spark: TPC-H lineitem loaded into an empty table, then upserted, in one warm session.

The load and every upsert are read back by a merge-on-read scan and compared with NumPy's own count, sum and distinct keys
before their time counts. Reported beside wall seconds: processor seconds of all processes (wall times say little on a busy
machine), the largest resident set of the driver, of the JVM and of a Python worker, and the load average.

    python -m bench.bench_upsert [--lineitem FILE | --scale 1] [--sizes 1500000,6000000] [--random] [--cold] [--cores 2] [--json]
    python -m bench.bench_upsert --scale 10 --sizes 60000000 --share 100 --driver-memory 1g --loads 1   # ten gigabytes of disk

Without --lineitem the data comes from tpchgen-cli (PyPI) into a cache folder.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakeidx
from bench.bench_limit import shuffled
from bench.figures import tell
from bench.lineitem import CACHE, KEYS, lineitem, streamed, table_spec
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.maintenance.warm_up import warm_up
from lakeidx.spark.runner import SparkRunner, get_session
from tests.kit.upserts import upsert_files

SUMMED = "l_partkey"
#: One upserted row for so many rows of the table; half of them have known keys.
UPSERT_SHARE = 10
NEW_KEYS_FROM = 10**9


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured step; memory in MiB, `peak_mib` the largest sum over all processes."""

    case: str
    rows: int
    seconds: float
    cpu_seconds: float
    driver_mib: int
    jvm_mib: int
    worker_mib: int
    peak_mib: int
    load_average: float
    note: str


def make_input(source: Path, rows: int, folder: Path, share: int = UPSERT_SHARE) -> tuple[Path, Path]:
    """Return the first rows of lineitem in a file of their own (the file itself when it has no more), and an upsert file.

    Files are read batch by batch: of the base no more is in memory than the upsert takes.
    """
    base, upsert = source, folder / f"upsert-{rows}.parquet"
    if pq.ParquetFile(source).metadata.num_rows > rows:
        base = folder / f"base-{rows}.parquet"
        reader = streamed(source, rows)
        with pq.ParquetWriter(base, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    total = pq.ParquetFile(base).metadata.num_rows
    rng = np.random.default_rng(7)
    half = total // share // 2
    chosen = np.sort(rng.choice(total, half, replace=False))
    parts, begin = [], 0
    for batch in streamed(base):
        low, high = np.searchsorted(chosen, (begin, begin + batch.num_rows))
        parts.append(batch.take(pa.array(chosen[low:high] - begin)))
        begin += batch.num_rows
    known, fresh = pa.Table.from_batches(parts), pa.Table.from_batches(streamed(base, half))
    fresh = fresh.set_column(0, fresh.schema.field(0), pc.add(fresh.column(0), NEW_KEYS_FROM))
    both = pa.concat_tables([known, fresh])
    both = both.set_column(1, both.schema.field(1), pc.add(both.column(1), 1))
    pq.write_table(both.take(pa.array(rng.permutation(both.num_rows))), upsert)
    return base, upsert


def expected(files: Sequence[Path]) -> tuple[int, int]:
    """Return (rows, sum) of the table after the files were upserted one after another, by NumPy."""
    tables = [pq.read_table(f, columns=[*KEYS, SUMMED]) for f in files]
    keys = np.concatenate([np.asarray(t.column(KEYS[0])) * 16 + np.asarray(t.column(KEYS[1])) for t in tables])
    values = np.concatenate([np.asarray(t.column(SUMMED)) for t in tables])
    # Of equal keys the last one counts: the first one of the reversed column.
    _, first = np.unique(keys[::-1], return_index=True)
    return len(first), int(values[::-1][first].sum())


def check(table: lakeidx.Table, want: tuple[int, int]) -> None:
    """Stop when a scan gives other rows, another sum, or a key twice."""
    rows, total = 0, 0
    keys = []
    for batch in table.scan(columns=[*KEYS, SUMMED]).batches():
        rows += batch.num_rows
        total += pc.sum(batch.column(SUMMED)).as_py()
        keys.append(np.asarray(batch.column(KEYS[0])) * 16 + np.asarray(batch.column(KEYS[1])))
    distinct = len(np.unique(np.concatenate(keys)))
    if (rows, total) != want or distinct != rows:
        sys.exit(f"wrong result: rows {rows}, sum {total}, distinct keys {distinct}; wanted {want}")


def verify(uri: str, files: Sequence[Path]) -> None:
    """`check` a table against the files that were upserted."""
    check(lakeidx.Table.open(uri), expected(files))


def in_own_process(function: Callable[..., object], *arguments: Any) -> None:
    """Call a function where its memory is not taken for the driver's; stops when it did."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        sys.exit(process.exitcode)


class Usage:
    """Processor time of this process and all below it, and the largest resident set of each kind, and of all, while sampling."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self.peak = {"driver": 0, "jvm": 0, "worker": 0, "all": 0}
        self._sampling = threading.Event()

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        yield "driver", self._me
        for process in self._me.children(recursive=True):
            try:
                yield ("jvm" if "java" in process.name() else "worker"), process
            except psutil.Error:
                continue

    def cpu(self) -> float:
        """Return the seconds so far; those of ended workers are in their parent's account."""
        total = 0.0
        for kind, process in self._processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += (
                times.user + times.system + (times.children_user + times.children_system if kind == "worker" else 0)
            )
        return total

    def _sample(self) -> None:
        while not self._sampling.wait(0.1):
            together = 0
            for kind, process in self._processes():
                try:
                    now = process.memory_info().rss >> 20
                except psutil.Error:
                    continue
                self.peak[kind] = max(self.peak[kind], now)
                together += now
            self.peak["all"] = max(self.peak["all"], together)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Sample memory meanwhile."""
        self._sampling.clear()
        self.peak = dict.fromkeys(self.peak, 0)
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._sampling.set()
            thread.join()


def measure_step(usage: Usage, case: str, step: Callable[[], BatchResult], proof: Callable[[], None]) -> Figure:
    """Run and time a batch, then verify the table; only a right result becomes a figure."""
    cpu, started = usage.cpu(), time.monotonic()
    with usage.watch():
        result = step()
    seconds, cpu = time.monotonic() - started, usage.cpu() - cpu
    proof()
    stages = (result.ingest, result.assign, result.write, result.commit)
    note = "stages " + " ".join(f"{s.stage} {s.seconds:.2f}" for s in stages)
    return Figure(case, result.ingest.rows_in, round(seconds, 2), round(cpu, 2), usage.peak["driver"], usage.peak["jvm"],
                  usage.peak["worker"], usage.peak["all"], round(os.getloadavg()[0], 1), note)  # fmt: skip


def measure_size(
    usage: Usage, runner: SparkRunner, source: Path, rows: int, args: argparse.Namespace, folder: Path
) -> list[Figure]:
    """Measure a load of so many rows, and upserts of a share of them."""
    base, upsert = folder / f"base-{rows}.parquet", folder / f"upsert-{rows}.parquet"
    in_own_process(make_input, source, rows, folder, args.share)
    if not base.exists():
        base = source
    if args.random:
        ordered, base = base, folder / f"shuffled-{rows}.parquet"
        in_own_process(shuffled, ordered, base)
    spec = table_spec(pq.ParquetFile(source).schema_arrow)

    def step(table: lakeidx.Table, batch: str, case: str, file: Path, files: Sequence[Path]) -> Figure:
        context = make_context(table.metadata, batch, runner=runner)
        return measure_step(
            usage, case, lambda: upsert_files(context, [str(file)]), lambda: in_own_process(verify, table.uri, files)
        )

    how = (" in random order" if args.random else "") + (", fresh session" if args.cold else "")
    loads, upserts = [], []
    # Only the first load of a session is that of a fresh one.
    for n in range(1, 2 if args.cold else args.loads + 1):
        table = lakeidx.Table.create(f"{folder}/wh/b.db/lineitem_{rows}_{n}", spec)
        loads.append(step(table, "load", f"load {rows:,}{how}", base, [base]))
    for n in range(1, args.rounds + 1):
        case = f"upsert {rows // args.share:,} into {rows:,}{how}"
        upserts.append(step(table, f"upsert-{n}", case, upsert, [base, upsert]))
    return [fastest(figures) for figures in (loads, upserts) if figures]


def fastest(figures: Sequence[Figure]) -> Figure:
    """Return the fastest of some rounds, with the seconds of all of them."""
    best = min(figures, key=lambda figure: figure.seconds)
    every = ", ".join(f"{figure.seconds:.2f}" for figure in figures)
    return replace(best, note=f"{best.note}; best of {every}")


def measure(args: argparse.Namespace, folder: Path) -> list[Figure]:
    """Load and upsert for every size, in one session that has done a small batch before."""
    source = args.lineitem or lineitem(args.scale, args.cache)
    schema = pq.ParquetFile(source).schema_arrow
    session = get_session(master=f"local[{args.cores}]", config={"spark.driver.memory": args.driver_memory})
    runner, usage = SparkRunner(session), Usage()
    try:
        runner.map(lambda _: warm_up(packages=("lakeidx.codec",), processes=1), list(range(args.cores)), label="warm")
        if not args.cold:
            in_own_process(make_input, source, 600_000, folder)
            warm = lakeidx.Table.create(f"{folder}/wh/b.db/warm", table_spec(schema))
            for batch in ("w1", "w2"):
                upsert_files(make_context(warm.metadata, batch, runner=runner), [f"{folder}/upsert-600000.parquet"])
        figures: list[Figure] = []
        for rows in args.sizes:
            figures += measure_size(usage, runner, source, rows, args, folder)
        return figures
    finally:
        session.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--sizes", type=lambda t: [int(n) for n in t.split(",")], default=[1_500_000, 6_001_215])
    parser.add_argument("--loads", type=int, default=3, help="loads into new tables, of which the fastest counts")
    parser.add_argument(
        "--rounds", type=int, default=3, help="upserts after the last load, of which the fastest counts"
    )
    parser.add_argument("--share", type=int, default=UPSERT_SHARE, help="one upserted row for so many of the table")
    parser.add_argument("--random", action="store_true", help="rows are loaded in random order of keys")
    parser.add_argument("--cold", action="store_true", help="nothing was done before in the session")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="3g")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        figures = measure(args, Path(folder))
    tell("Upsert on Spark", figures, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
