"""Speed of data files and merging on TPC-H lineitem: write, scan merged, compact.

The table of issue "compaction": SF1 lineitem (6.0 M rows, 16 columns) in 14 buckets, one file per bucket at the top level, then
two upserts of 600 k rows (half known keys) as level-0 files. Merged row count and column sum are checked against NumPy before
anything is timed; so is the compacted table. Workers are processes started and warmed before the clock runs, as in a Spark
session; each pins Arrow to one thread.

    python -m bench.bench_data [--lineitem FILE] [--scale 1] [--buckets 14] [--workers 2] [--rounds 3] [--json]

Without --lineitem the data comes from tpchgen-cli (PyPI), which must be on PATH.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.codec.bucket import fixed_buckets
from lakeidx.data.merge.merge_runs import merge_rows, merge_sorted_runs
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.write_data_file import write_data_files
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.storage import LocalStore
from lakeidx.testing.peak_memory import peak_mib

STORE = LocalStore(sync=False)
COLUMNS = {
    "l_orderkey": "BIGINT NOT NULL", "l_partkey": "BIGINT", "l_suppkey": "BIGINT", "l_linenumber": "INT NOT NULL",
    "l_quantity": "DECIMAL(15, 2)", "l_extendedprice": "DECIMAL(15, 2)", "l_discount": "DECIMAL(15, 2)",
    "l_tax": "DECIMAL(15, 2)", "l_returnflag": "STRING", "l_linestatus": "STRING", "l_shipdate": "DATE",
    "l_commitdate": "DATE", "l_receiptdate": "DATE", "l_shipinstruct": "STRING", "l_shipmode": "STRING",
    "l_comment": "STRING",
}  # fmt: skip
UPSERT_SHARE = 10
SUMMED = "l_extendedprice"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: wall seconds of the best round, processor seconds of all workers in it, rows and what came of it."""

    case: str
    seconds: float
    cpu_seconds: float
    rows: int
    note: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket on disk: its files by run, and the rows it holds when merged."""

    directory: str
    runs: tuple[tuple[DataFileMeta, ...], ...]


def lineitem_schema() -> TableSchema:
    """Return the table under test."""
    return new_schema(
        {
            "fields": [{"name": n, "type": t} for n, t in COLUMNS.items()],
            "primaryKeys": ["l_orderkey", "l_linenumber"],
            "partitionKeys": [],
            "options": {"bucket": "-1"},
        }
    )


def load(path: Path, schema: TableSchema) -> pa.Table:
    """Make lineitem a KV table in file order."""
    table = pq.read_table(path).select(list(COLUMNS))
    plain = pa.schema(
        [pa.field(f.name, f.type, n.nullable) for f, n in zip(schema.arrow_schema, table.schema, strict=True)]
    )
    return as_kv(table.cast(plain), 0, schema)


def as_kv(table: pa.Table, first_sequence: int, schema: TableSchema) -> pa.Table:
    """Return rows as +I, numbered on."""
    n = table.num_rows
    system = [pa.array(np.arange(first_sequence, first_sequence + n)), pa.array(np.zeros(n, np.int8))]
    return pa.Table.from_arrays([*system, *table.columns], schema=schema.kv_arrow_schema)


def upsert_rows(base: pa.Table, seed: int, first_sequence: int, schema: TableSchema) -> pa.Table:
    """Return a tenth of the rows with a new price; every other one under a new key."""
    rng = np.random.default_rng(seed)
    count = base.num_rows // UPSERT_SHARE
    rows = base.take(pa.array(rng.choice(base.num_rows, count, replace=False))).select(list(COLUMNS))
    line = rows["l_linenumber"].to_numpy() + np.where(np.arange(count) % 2, 7 + 7 * seed, 0)
    price = pc.add(rows[SUMMED], pa.scalar(seed, pa.decimal128(15, 2))).cast(pa.decimal128(15, 2))
    rows = rows.set_column(rows.schema.get_field_index("l_linenumber"), "l_linenumber", pa.array(line, pa.int32()))
    return as_kv(rows.set_column(rows.schema.get_field_index(SUMMED), SUMMED, price), first_sequence, schema)


def split(kv: pa.Table, schema: TableSchema, buckets: int) -> list[pa.Table]:
    """Return the rows of each bucket."""
    keys = [kv.column(k) for k in schema.trimmed_primary_keys]
    chosen = fixed_buckets(keys, schema.key_types, buckets)
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(buckets + 1))
    return [kv.take(pa.array(order[a:b])) for a, b in itertools.pairwise(bounds)]


def expected(tables: Sequence[pa.Table]) -> tuple[int, int]:
    """Return (rows, sum of unscaled prices) of the merged table, by NumPy alone."""
    order = np.concatenate([t["l_orderkey"].to_numpy() for t in tables])
    line = np.concatenate([t["l_linenumber"].to_numpy() for t in tables])
    cents = np.concatenate([pc.multiply(t[SUMMED], 100).cast(pa.int64()).to_numpy() for t in tables])
    key = order * 1000 + line
    _, last = np.unique(key[::-1], return_index=True)
    return len(last), int(cents[::-1][last].sum())


# Work of one bucket, run in a worker process.


def warm(_: int) -> None:
    """Load kernels and code before anything is timed."""
    pa.set_cpu_count(1)
    schema = lineitem_schema()
    columns = [pa.array([v] * 2, f.type) for f, v in zip(schema.arrow_schema, _SAMPLE, strict=True)]
    columns[3] = pa.array([1, 2], pa.int32())
    kv = as_kv(pa.table(columns, schema=schema.arrow_schema), 0, schema)
    with tempfile.TemporaryDirectory() as folder:
        (file,) = write_data_files(
            [merge_rows(kv, schema)], schema, store=STORE, bucket_dir=folder, names=NewFileNames()
        )
        scan(Bucket(folder, ((file,), (file,))), None)
        compact(Bucket(folder, ((file,), (file,))))


_SAMPLE = [1, 1, 1, 1, 1, 1, 1, 1, "a", "b", 1, 1, 1, "c", "d", "e"]


def write_bucket(directory: str, names: tuple[str, ...], first_level: int) -> Bucket:
    """Sort, merge and write the Arrow files of a bucket, the first at the given level."""
    schema = lineitem_schema()
    runs = []
    for i, name in enumerate(names):
        with pa.memory_map(name) as source:
            kv = pa.ipc.open_file(source).read_all()
        level = first_level if i == 0 else 0
        files = write_data_files(
            [merge_rows(kv, schema)], schema, store=STORE, bucket_dir=directory, names=NewFileNames(), level=level,
            file_source=FileSource.COMPACT if level else FileSource.APPEND,
        )  # fmt: skip
        runs.append(tuple(files))
    return Bucket(directory, tuple(runs))


def open_runs(bucket: Bucket, schema: TableSchema, columns: Sequence[str] | None) -> list[Iterator[pa.Table]]:
    """Return the sorted runs of a bucket as streams."""

    def stream(files: Sequence[DataFileMeta]) -> Iterator[pa.Table]:
        for file in files:
            yield from read_data_file(STORE, f"{bucket.directory}/{file.file_name}", file, schema, schema, columns)

    return [stream(files) for files in bucket.runs]


def scan(bucket: Bucket, columns: Sequence[str] | None) -> tuple[int, int]:
    """Return (rows, sum of unscaled prices) by a merge-on-read scan."""
    schema = lineitem_schema()
    rows, total = 0, 0
    for table in merge_sorted_runs(open_runs(bucket, schema, columns), schema, drop_deletes=True):
        rows += table.num_rows
        total += int(pc.sum(table.column(SUMMED)).as_py().scaleb(2))
    return rows, total


def compact(bucket: Bucket) -> Bucket:
    """Compact a bucket fully into the top level."""
    schema = lineitem_schema()
    merged = merge_sorted_runs(open_runs(bucket, schema, None), schema, drop_deletes=True)
    files = write_data_files(
        merged, schema, store=STORE, bucket_dir=bucket.directory + "-compacted", names=NewFileNames(), level=5,
        file_source=FileSource.COMPACT,
    )  # fmt: skip
    return Bucket(bucket.directory + "-compacted", (tuple(files),))


def timed(work: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """Return what the work gives, and the processor seconds it took."""
    before = time.process_time()
    return work(*args), time.process_time() - before


def run_all(
    pool: Executor, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]
) -> tuple[list[Any], float, float]:
    """Return the results in job order, wall seconds, processor seconds."""
    begin = time.perf_counter()
    done = [f.result() for f in [pool.submit(timed, work, *job) for job in jobs]]
    return [r for r, _ in done], time.perf_counter() - begin, sum(cpu for _, cpu in done)


def best(
    pool: Executor,
    case: str,
    work: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    rounds: int,
    rows: int,
    note: str = "",
) -> tuple[list[Any], Figure]:
    """Return the best of some rounds."""
    results, figures = [], []  # type: ignore[var-annotated]
    for _ in range(rounds):
        results, wall, cpu = run_all(pool, work, jobs)
        figures.append(Figure(case, round(wall, 3), round(cpu, 3), rows, note))
    return results, min(figures, key=lambda f: f.seconds)


def peer_write(table_file: str, directory: str) -> None:
    """Measure what pyarrow alone does with the same sorted rows: its default encodings, zstd level 1."""
    with pa.memory_map(table_file) as source:
        kv = pa.ipc.open_file(source).read_all()
    kv = kv.sort_by([("l_orderkey", "ascending"), ("l_linenumber", "ascending")])
    pq.write_table(kv, f"{directory}/peer.parquet", compression="zstd", compression_level=1, store_schema=False)


def generate(folder: Path, scale: float) -> Path:
    """Make lineitem by tpchgen-cli."""
    tool = shutil.which("tpchgen-cli")
    if tool is None:
        sys.exit("tpchgen-cli is not on PATH: pip install tpchgen-cli, or give --lineitem FILE")
    subprocess.run([tool, "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={folder}"], check=True)
    return folder / "lineitem.parquet"


def measure(args: argparse.Namespace, folder: Path) -> list[Figure]:
    """Measure all cases."""
    schema = lineitem_schema()
    base = load(args.lineitem or generate(folder, args.scale), schema)
    n = base.num_rows
    upserts = [upsert_rows(base, seed, seed * 10**8, schema) for seed in (1, 2)]
    want = expected([base, *upserts])
    jobs, peers = [], []
    parts = [split(kv, schema, args.buckets) for kv in (base, *upserts)]
    for b in range(args.buckets):
        directory = folder / f"bucket-{b}"
        directory.mkdir()
        names = []
        for i, part in enumerate(parts):
            name = str(folder / f"rows-{b}-{i}.arrow")
            with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, part[b].schema) as writer:
                writer.write_table(part[b])
            names.append(name)
        jobs.append((str(directory), tuple(names), 5))
        peers.append((names[0], str(directory)))
    del base, parts
    figures = []
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        list(pool.map(warm, range(4 * args.workers)))
        _, figure = best(
            pool, "write base: sort, merge, Parquet", write_bucket, [(d, f[:1], 5) for d, f, _ in jobs], args.rounds, n
        )
        figures.append(figure)
        _, figure = best(pool, "peer: sort and write by pyarrow alone", peer_write, peers, args.rounds, n)
        figures.append(figure)
        for directory in folder.glob("bucket-*"):
            shutil.rmtree(directory)
        buckets, _, _ = run_all(pool, write_bucket, jobs)
        size = sum(f.file_size for b in buckets for run in b.runs for f in run)
        for case, columns in (
            ("scan: count and sum of one column", (SUMMED, *schema.primary_keys)),
            ("scan: all columns", None),
        ):
            found, figure = best(
                pool, case, scan, [(b, columns) for b in buckets], args.rounds, n + 2 * (n // UPSERT_SHARE)
            )
            check(found, want)
            figures.append(figure)
        compacted, figure = best(
            pool, "full compaction", compact, [(b,) for b in buckets], args.rounds, n + 2 * (n // UPSERT_SHARE)
        )
        figures.append(figure)
        again, _, _ = run_all(pool, scan, [(b, (SUMMED, *schema.primary_keys)) for b in compacted])
        check(again, want)
        out = sum(f.file_size for b in compacted for run in b.runs for f in run)
        peak = max(pool.map(peak_of_worker, range(4 * args.workers)))
    figures[-1] = Figure(
        **{
            **asdict(figures[-1]),
            "note": f"{want[0]} rows out, {size / 1e6:.0f} -> {out / 1e6:.0f} MB, worker peak {peak} MB",
        }
    )
    return figures


def check(found: Sequence[tuple[int, int]], want: tuple[int, int]) -> None:
    """Stop when rows or sum differ from NumPy's."""
    got = (sum(r for r, _ in found), sum(s for _, s in found))
    if got != want:
        sys.exit(f"wrong result: {got} instead of {want}")


def peak_of_worker(_: int) -> int:
    """Return the most memory this worker has held, MiB."""
    return peak_mib()


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--buckets", type=int, default=14)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(args, Path(folder))
    for f in figures:
        if args.json:
            print(json.dumps({**asdict(f), "machine": platform.machine(), "pyarrow": pa.__version__}))
        else:
            print(f"{f.case:40s} {f.seconds:7.2f} s wall {f.cpu_seconds:7.2f} s cpu  {f.rows:>10,} rows  {f.note}")


if __name__ == "__main__":
    main()
