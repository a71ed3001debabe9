"""Full compaction of the lineitem table of TPC-H scale 1 after two upserts of 600 k rows, and the scans before and after it.

7.2 M rows in, 6.3 M out. What every scan gives is checked against NumPy's own count and sum over the input files before its time
counts. Beside wall seconds the processor seconds are reported: on a machine that does other things, too, only they say
something. Every round compacts a fresh copy of the table.

The peer is the released Java Paimon in a warm JVM of its own, its splits spread over as many threads. It makes Java objects of
the rows, as its users get them.

    python -m bench.bench_compaction [--lineitem FILE] [--rounds 3] [--threads 2] [--no-java] [--json]

Without --lineitem the data comes from tpchgen-cli (PyPI) into a cache folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakeidx
from bench.clock import best_of
from bench.figures import tell
from bench.lineitem import CACHE, KEYS, copy_table, lineitem, plain, table_spec
from lakeidx.batch.context import make_context
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.warm_up import warm_up
from lakeidx.table.view import data_file_path, load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_tools import compiled, java_command, run_command, witness_classpath
from tests.kit.peak_memory import peak_mib
from tests.kit.upserts import upsert_files

SUMMED = "l_partkey"
UPSERT_ROWS = 600_000
NEW_KEYS_FROM = 10**9


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured step: least wall seconds and least processor seconds of the rounds; memory in MiB.

    java     seconds of the released Java Paimon on the same files
    pyarrow_cpu     processor seconds that pyarrow takes to read, of the same files, what the scan has to: in a merge also the
                    columns of the system and of the key
    times_pyarrow   how many times that the scan takes
    """

    case: str
    rows_in: int
    rows_out: int
    seconds: float
    cpu_seconds: float
    peak_mib: int
    load_average: float
    java: float | None = None
    pyarrow_cpu: float | None = None
    times_pyarrow: float | None = None


def make_upserts(source: Path, folder: Path) -> list[Path]:
    """Make two files, half known keys, half new ones (the same new ones in both)."""
    rows = plain(pq.read_table(source))
    half = min(UPSERT_ROWS, rows.num_rows) // 2
    new = rows.slice(0, half)
    new = new.set_column(0, new.schema.field(0), pc.add(new.column(0), NEW_KEYS_FROM))
    out = []
    for seed in (1, 2):
        random = np.random.default_rng(seed)
        known = rows.take(pa.array(np.sort(random.choice(rows.num_rows, half, replace=False))))
        both = pa.concat_tables([known, new])
        # Values that tell the batches apart, so that a sum shows which of them won.
        both = both.set_column(1, both.schema.field(1), pc.add(both.column(1), seed * 1_000_000))
        path = folder / f"upsert-{seed}.parquet"
        pq.write_table(both.take(pa.array(random.permutation(both.num_rows))), path)
        out.append(path)
    return out


def expected(files: Sequence[Path]) -> tuple[int, int]:
    """Return the rows and sum of the column after all files, by NumPy: of a key's rows the last counts."""
    tables = [pq.read_table(f, columns=[*KEYS, SUMMED]) for f in files]
    order, line, value = (np.concatenate([np.asarray(t.column(n)) for t in tables]) for n in (*KEYS, SUMMED))
    keys = order.astype(np.int64) * 16 + line
    _, last = np.unique(keys[::-1], return_index=True)
    return len(last), int(value[::-1][last].sum())


def build(source: Path, upserts: Sequence[Path], folder: Path, threads: int) -> lakeidx.Table:
    """Make the table: loaded, then upserted twice."""
    table = lakeidx.Table.create(f"{folder}/wh/b.db/lineitem", table_spec(pq.read_schema(source)))
    for i, file in enumerate((source, *upserts)):
        upsert_files(make_context(table.metadata, f"b{i}", runner=LocalRunner(threads)), [str(file)])
    return table


def check(table: lakeidx.Table, want: tuple[int, int]) -> None:
    """Exit unless the table gives the count and sum."""
    rows = table.scan(columns=[SUMMED]).to_arrow()
    found = (rows.num_rows, pc.sum(rows.column(SUMMED)).as_py())
    if found != want:
        sys.exit(f"wrong result: {found}, expected {want}")


def measure(case: str, rounds: int, step: Callable[[], tuple[int, int]]) -> Figure:
    """Return the best of some rounds; the step gives rows in and out."""
    best: Figure | None = None
    for _ in range(rounds):
        cpu, started = time.process_time(), time.perf_counter()
        rows_in, rows_out = step()
        seconds, used = time.perf_counter() - started, time.process_time() - cpu
        peak = peak_mib()
        figure = Figure(case, rows_in, rows_out, round(seconds, 2), round(used, 3), peak, round(os.getloadavg()[0], 1))
        least = min(figure.cpu_seconds, figure.cpu_seconds if best is None else best.cpu_seconds)
        best = replace(figure if best is None or figure.seconds < best.seconds else best, cpu_seconds=least)
    assert best is not None
    return best


def run(source: Path, rounds: int, threads: int, folder: Path, *, with_java: bool) -> list[Figure]:
    """Measure everything."""
    warm_up(packages=("lakeidx.codec",), processes=1)
    upserts = make_upserts(source, folder)
    base = build(source, upserts, folder, threads)
    files = (source, *upserts)
    want = expected(files)
    total = sum(pq.read_metadata(f).num_rows for f in files)
    check(base, want)
    figures = []

    def scan(columns: list[str] | None, uri: str = base.uri) -> Callable[[], tuple[int, int]]:
        def read() -> tuple[int, int]:
            n = sum(t.num_rows for t in lakeidx.Table.open(uri).scan(columns=columns).batches())
            return total, n

        return read

    for case, columns in (("merge-on-read scan, one column", [SUMMED]), ("merge-on-read scan, all columns", None)):
        figure = measure(case, rounds, scan(columns))
        java = java_scan(base.uri, columns, want, threads, rounds) if with_java else None
        needed = [SEQUENCE_NUMBER, VALUE_KIND, *KEYS, *columns] if columns else None
        figures.append(beside_pyarrow(replace(figure, java=java), base, needed, rounds))

    copies = [lakeidx.Table.open(copy_table(base.uri, folder / f"copy-{i}")) for i in range(rounds)]
    waiting = iter(copies)

    def compact() -> tuple[int, int]:
        report = run_compaction(next(waiting).metadata, LocalRunner(threads), full=True)
        return report.rows_in, report.rows_out

    figures.append(measure("full compaction", rounds, compact))
    columns = pq.read_schema(source).names
    merged = measure("scan after compaction, all columns", rounds, scan(None, copies[0].uri))
    figures.append(beside_pyarrow(merged, lakeidx.Table.open(copies[0].uri), columns, rounds))
    for table in copies:
        check(lakeidx.Table.open(table.uri), want)
    return figures


def beside_pyarrow(figure: Figure, table: lakeidx.Table, columns: list[str] | None, rounds: int) -> Figure:
    """Add what pyarrow takes for columns of the table's files (None: all), checksums verified."""
    entries = load_view(table.metadata, table.metadata.latest_snapshot()).entries
    files = [data_file_path(table.metadata, entry) for entry in entries]

    def read() -> None:
        for path in files:
            pq.read_table(path, columns=columns, page_checksum_verification=True)

    _, cpu = best_of(rounds + 1, read)
    return replace(figure, pyarrow_cpu=round(cpu, 3), times_pyarrow=round(figure.cpu_seconds / cpu, 2))


def java_scan(uri: str, columns: list[str] | None, want: tuple[int, int], threads: int, rounds: int) -> float | None:
    """Return the best seconds of Java Paimon; None where there is no Java. Its answer is checked, too."""
    if shutil.which("mvn") is None:
        return None
    location = Path(uri)
    name = f"{location.parent.name.removesuffix('.db')}.{location.name}"
    wanted = ",".join(columns) if columns else "all"
    path = compiled("ScanMicro", witness_classpath())
    # Two rounds more than ours: a JVM needs them to get warm.
    command = java_command("ScanMicro", path, location.parent.parent, name, wanted, SUMMED, threads, rounds + 2)
    lines = [line.split() for line in run_command(command).splitlines()]
    for rows, total, _ in lines:
        if (int(rows), int(total)) != want:
            sys.exit(f"Java reads {rows} rows with sum {total}, expected {want}")
    return round(min(float(seconds) for _, _, seconds in lines), 2)


def main(argv: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--lineitem", type=Path, help="lineitem.parquet of TPC-H scale 1")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        figures = run(
            args.lineitem or lineitem(1, args.cache),
            args.rounds,
            args.threads,
            Path(folder),
            with_java=not args.no_java,
        )
    tell(f"Compaction, {args.threads} threads", figures, as_json=args.json)


if __name__ == "__main__":
    main()
