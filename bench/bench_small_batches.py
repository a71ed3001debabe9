"""Small batches: into a large table, and one row at a time for a minute with compaction beside; what Iceberg metadata adds.

Into a table of 10 M narrow rows go batches of 10,000 and of 100 rows, half of their keys known, in a process that has done some;
afterwards the number of rows must be right, and the values of the last batch there.

File systems are not always as fast at making files: ext4 passes over the inodes of files that were removed in the last minutes, one
by one, so that a file may take 0.02 or 0.8 ms. What one file of a table took just then, made by bare calls of the system, stands
beside each figure; all large tables are measured before the first of the others, whose snapshots expire by thousands of files.

For a minute one process calls `Table.upsert` with one row a hundred times a second; keys come round again, so that rows are
updated. A second process compacts what universal compaction picks and expires snapshots, over and over, as upkeep does. At the
end the table must hold the last value of every key. Files on level 0 are counted before each compaction, when there are most.

Batches of 100, 10,000 and 600,000 rows and full compactions of a table of 600,000 go by turns into two tables, one of which has
Iceberg metadata (`metadata.iceberg.storage`): the median of the pairs' shares is what it adds. pyiceberg then counts the rows.

    python -m bench.bench_small_batches [--iceberg] [--rows 10000000] [--rounds 30] [--seconds 60] [--per-second 100] [--json]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.figures import tell
from lakeidx.api import Table
from lakeidx.storage.local import local_path
from lakeidx.table.view import load_view
from tests.kit.metered_store import MeteredStore

KEYS = 1000
KEPT_SNAPSHOTS = 50
WARM = 20
BARE_FILES = 20
#: Between two compactions; how many of them there are for an expiry.
PAUSE_SECONDS, COMPACTIONS_PER_EXPIRY = 0.1, 20
BATCHES = (10_000, 100)
#: Rows of a batch; 0: a full compaction.
ICEBERG_CASES = (100, 10_000, 600_000, 0)
LOAD_ROWS = 1_000_000
#: Values of the option `bucket`: of the large table, and of the one that gets row after row.
BUCKETS = {"dynamic": ("-1", "-1"), "fixed": ("4", "1")}


@dataclass(frozen=True, slots=True)
class Figure:
    """One case.

    rows                     of a batch
    upserts                  how many were timed; per_second: how many were done in a second while one row followed another
    ms, cpu_ms               of one of them, by the clock and by the processor: the least, with row after row the median
    p99_ms                   99th percentile
    requests, files          of one of them: calls of the store, and files put among them
    disk_waits               of one of them: fsyncs, those that one call starts side by side counted as one
    bare_file_ms             of an empty file made in the table's directory and renamed, at that time: the median
    most_files, late_files   on level 0 of a bucket, before any compaction and before those of the second half
    """

    case: str
    rows: int
    upserts: int
    ms: float
    cpu_ms: float
    p99_ms: float
    requests: int
    files: int
    disk_waits: int
    bare_file_ms: float
    per_second: float | None = None
    compactions: int | None = None
    compaction_cpu_seconds: float | None = None
    most_files: int | None = None
    late_files: int | None = None


@dataclass(frozen=True, slots=True)
class IcebergFigure:
    """What Iceberg metadata adds to a batch, or a compaction: of time by the clock and by the processor; ms, cpu_ms: without it."""

    case: str
    rounds: int
    ms: float
    cpu_ms: float
    added: str
    cpu_added: str


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What the compacting process did: compactions, processor seconds, and (time, files on level 0) of each look."""

    compactions: int
    cpu_seconds: float
    seen: tuple[tuple[float, int], ...]


def files_on_level_0(table: Table) -> int:
    """Most files that a bucket has on level 0."""
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    return max((sum(f.level == 0 for f in files) for files in view.by_bucket().values()), default=0)


def upkeep(uri: str, ready: Event, end: Event) -> Upkeep:
    """Compact and expire until told to end."""
    table = Table.open(uri)
    done, seen = 0, []
    table.compact()
    ready.set()
    used = time.process_time()
    while not end.wait(PAUSE_SECONDS):
        seen.append((time.monotonic(), files_on_level_0(table)))
        done += table.compact().buckets > 0
        if done % COMPACTIONS_PER_EXPIRY == COMPACTIONS_PER_EXPIRY - 1:
            table.expire(retain_max=KEPT_SNAPSHOTS, retain_min=1, retain_time="1 s")
    # A compaction that lost to every row would not have looked since it began.
    seen.append((time.monotonic(), files_on_level_0(table)))
    return Upkeep(done, time.process_time() - used, tuple(seen))


def row(number: int) -> pa.Table:
    """Make the number-th row: its key comes round again."""
    return pa.table({"k": pa.array([number % KEYS], pa.int64()), "v": pa.array([number], pa.int64())})


def create(uri: str, bucket: str, **options: str) -> Table:
    """Make the table."""
    fields = [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "BIGINT"}]
    return Table.create(uri, {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": bucket, **options}})


def numbered(keys: NDArray[np.int64], value: int) -> pa.Table:
    """Make rows of these keys with one value."""
    return pa.table({"k": keys, "v": np.full(len(keys), value, np.int64)})


def cost_of(table: Table, batch: pa.Table) -> tuple[int, int, int]:
    """Upsert a batch; gives the requests, files and waits for the disk of `Figure`."""
    metadata, fsync, waits = table.metadata, os.fsync, []

    def counting(descriptor: int) -> None:
        # Threads of this name wait beside the one that started them.
        if not threading.current_thread().name.startswith("fsync"):
            waits.append(descriptor)
        fsync(descriptor)

    store = metadata.store
    metadata.store = metered = MeteredStore(store)
    try:
        with mock.patch.object(os, "fsync", counting):
            table.upsert(batch)
    finally:
        metadata.store = store
    files = sum(metered.counts[verb].requests for verb in ("put", "put_if_absent"))
    return metered.total.requests, files, len(waits)


def bare_file_ms(table: Table) -> float:
    """Return what it takes to make a file beside the table's manifests, and to give it its name."""
    folder, took = local_path(table.metadata.paths.manifest_dir), []
    for number in range(BARE_FILES):
        path = f"{folder}/.bare-{number}"
        begun = time.perf_counter()
        os.close(os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        os.rename(f"{path}.tmp", path)
        took.append(time.perf_counter() - begun)
    for number in range(BARE_FILES):
        os.unlink(f"{folder}/.bare-{number}")
    return round(float(np.median(took)) * 1e3, 3)


def into_large(kind: str, rows: int, rounds: int, uri: str) -> list[Figure]:
    """Time batches into a large table."""
    table = create(uri, BUCKETS[kind][0])
    for start in range(0, rows, LOAD_ROWS):
        table.upsert(numbered(np.arange(start, min(start + LOAD_ROWS, rows)), -1))
    table.compact(full=True)
    rng = np.random.default_rng(1)
    total, figures = rows, []
    for size in BATCHES:
        took, cpu, cost = [], [], (0, 0, 0)
        for number in range(rounds + 3):
            old = rng.choice(rows, size // 2, replace=False)
            batch = numbered(np.concatenate((old, np.arange(total, total + size - len(old)))), number)
            total += size - len(old)
            if number == 2:
                cost = cost_of(table, batch)
                continue
            begun, used = time.perf_counter(), time.process_time()
            table.upsert(batch)
            took.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
        found = table.scan().to_arrow()
        assert found.num_rows == total, f"{found.num_rows} rows, expected {total}"
        last = found.filter(pc.is_in(found.column("k"), value_set=pa.array(batch.column("k"))))
        assert last.column("v").to_pylist() == [rounds + 2] * size, "not the last values"
        del took[:2], cpu[:2]
        figures.append(Figure(f"{kind}, {size:,} into {rows:,}", size, rounds, _ms(min(took)), _ms(min(cpu)),
                              _ms(float(np.quantile(took, 0.99))), *cost, bare_file_ms(table)))  # fmt: skip
    return figures


def iceberg_cost(rounds: int, folder: str) -> list[IcebergFigure]:
    """Time batches and full compactions with Iceberg metadata and without, by turns."""
    from pyiceberg.table import StaticTable

    plain = create(f"{folder}/plain", "-1")
    with_it = create(f"{folder}/iceberg", "-1", **{"metadata.iceberg.storage": "table-location"})
    most, figures, number = max(ICEBERG_CASES), [], 0
    rng = np.random.default_rng(1)
    for size in ICEBERG_CASES:
        took: dict[Table, list[tuple[float, float]]] = {plain: [], with_it: []}
        for turn in range(rounds + 2):
            number += 1
            batch = numbered(rng.permutation(most)[: size or 10_000], number)
            for table in (plain, with_it) if turn % 2 else (with_it, plain):
                if not size:
                    table.upsert(batch)
                begun, used = time.perf_counter(), time.process_time()
                table.upsert(batch) if size else table.compact(full=True)
                took[table].append((time.perf_counter() - begun, time.process_time() - used))
        pairs = np.array([took[plain], took[with_it]])[:, 2:]
        added = np.median(pairs[1] / pairs[0] - 1, axis=0)
        least = pairs[0].min(axis=0).tolist()
        case = f"Iceberg metadata, {f'{size:,} rows' if size else f'full compaction of {most:,}'}"
        figures.append(
            IcebergFigure(case, rounds, _ms(least[0]), _ms(least[1]), f"{added[0]:+.1%}", f"{added[1]:+.1%}")
        )
    assert plain.scan().to_arrow().sort_by("k") == with_it.scan().to_arrow().sort_by("k"), "the tables differ"
    seen = StaticTable.from_metadata(with_it.uri).scan().to_arrow().select(["k", "v"]).sort_by("k")
    assert seen.to_pydict() == with_it.scan().to_arrow().sort_by("k").to_pydict(), "Iceberg readers see other rows"
    return figures


def row_after_row(kind: str, seconds: float, per_second: float, uri: str) -> Figure:
    """Upsert one row again and again, with compaction beside."""
    table = create(uri, BUCKETS[kind][1])
    for number in range(WARM - 1):
        table.upsert(row(number))
    cost, bare = cost_of(table, row(WARM - 1)), bare_file_ms(table)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(1) as pool:
        ready, end = manager.Event(), manager.Event()
        beside = pool.apply_async(upkeep, (uri, ready, end))
        ready.wait()
        took, cpu = [], []
        begun, number = time.monotonic(), WARM
        while (now := time.monotonic()) < begun + seconds:
            time.sleep(max(0.0, begun + (number - WARM) / per_second - now))
            started, used = time.perf_counter(), time.process_time()
            table.upsert(row(number))
            took.append(time.perf_counter() - started)
            cpu.append(time.process_time() - used)
            number += 1
        elapsed = time.monotonic() - begun
        end.set()
        told: Upkeep = beside.get()
    late = [files for at, files in told.seen if at >= begun + elapsed / 2]
    found = table.scan().to_arrow().sort_by("k")
    last = {n % KEYS: n for n in range(number)}
    assert found.column("k").to_pylist() == sorted(last), "keys are missing"
    assert found.column("v").to_pylist() == [last[k] for k in sorted(last)], "values are not the last ones"
    return Figure(
        f"{kind}, one row {per_second:g} times a second", 1, len(took), _ms(float(np.median(took))), _ms(float(np.median(cpu))),
        _ms(float(np.quantile(took, 0.99))), *cost, bare, round(len(took) / elapsed, 1), told.compactions,
        round(told.cpu_seconds, 2), max(f for _, f in told.seen), max(late, default=0),
    )  # fmt: skip


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="0: no large table")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60, help="0: no row after row")
    parser.add_argument("--per-second", type=float, default=100)
    parser.add_argument("--iceberg", action="store_true", help="only what Iceberg metadata adds")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    figures: list[Figure | IcebergFigure] = []
    if args.iceberg:
        args.rows = args.seconds = 0
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        for kind in BUCKETS if args.rows else ():
            figures += into_large(kind, args.rows, args.rounds, f"{folder}/large.db/{kind}")
        for kind in BUCKETS if args.seconds else ():
            figures.append(row_after_row(kind, args.seconds, args.per_second, f"{folder}/small.db/{kind}"))
        figures += iceberg_cost(args.rounds, f"{folder}/iceberg.db")
    tell("Small batches", figures, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
