"""Speed of reading a table with file indexes: TPC-H lineitem in 14 buckets, every result checked before it is timed.

    python -m bench scan [-- [--lineitem FILE | --scale 1] [--table DIR] [--rounds 5] [--no-spark]]

The table has bloom filters of l_partkey and l_comment, a bitmap of l_shipmode and a range bitmap of l_shipdate. Expected rows
come from filtering a full, unpruned scan with Arrow. Wall time of the best round beside processor time, which a busy machine
does not change. Without --lineitem the data comes from tpchgen-cli (PyPI) into a
cache folder; --table reads a table that an earlier run has left there (``--table DIR`` is built when it does not exist).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.bench_upsert import Usage
from bench.figures import tell
from bench.lineitem import lineitem, table_spec
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.file_index.options import IndexedColumn
from lakeidx.file_index.write import DataFileIndexWriter
from lakeidx.format.file_names import NewFileNames
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import filter_table
from lakeidx.spark.datasource import read_table
from lakeidx.spark.runner import get_session
from lakeidx.storage import open_store
from lakeidx.table.scan.table_scan import bind_where
from lakeidx.tasks.runner import LocalRunner
from tests.kit.upserts import upsert_files

BUCKETS = 14
KEYS = ("l_orderkey", "l_linenumber")
THREE = ("l_orderkey", "l_partkey", "l_extendedprice")
_SHOWN = ["l_orderkey", "l_linenumber", "l_partkey", "l_shipmode", "l_shipdate"]
#: Values asked one after another for the share of files that a bloom filter lets through for nothing.
_PROBES = 40


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    seconds, cpu_seconds   best round: on the clock, and of the processor (of Spark: of all its processes)
    files, files_holding   opened, and of these the ones with selected rows
    times_holding          files opened, for each that holds selected rows
    times_without          seconds for each that the same takes without an index
    """

    case: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    rows: int | None = None
    files: int | None = None
    files_holding: int | None = None
    row_groups: int | None = None
    times_holding: float | None = None
    times_without: float | None = None


def build(uri: str, source: Path) -> Table:
    """Make lineitem a compacted table of 14 buckets with its file indexes."""
    file = pq.ParquetFile(source)
    spec = table_spec(file.schema_arrow)
    rows = file.metadata.num_rows
    spec["options"] = {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": str(-(-rows // BUCKETS)),
        "file-index.bloom-filter.columns": "l_partkey,l_comment",
        "file-index.bloom-filter.l_partkey.items": str(max(1, rows // 30)),
        "file-index.bloom-filter.l_partkey.fpp": "0.01",
        "file-index.bloom-filter.l_comment.items": str(max(1, rows // BUCKETS)),
        "file-index.bloom-filter.l_comment.fpp": "0.01",
        "file-index.bitmap.columns": "l_shipmode",
        "file-index.range-bitmap.columns": "l_shipdate",
    }
    table = Table.create(uri, spec)
    runner = LocalRunner(2)
    upsert_files(make_context(table.metadata, "load", runner=runner), [str(source)])
    run_compaction(table.metadata, runner, full=True)
    return table


def best(work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Return (seconds, processor seconds) of the fastest round, after one round to warm up."""
    work()
    out = []
    for _ in range(rounds):
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        out.append((time.perf_counter() - clock, time.process_time() - cpu))
    return min(o[0] for o in out), min(o[1] for o in out)


def ask(table: Table, everything: pa.Table, where: str, rounds: int) -> Figure:
    """Check and time one question."""
    expected = filter_table(bind_where(where, table.schema), everything).select(_SHOWN)
    scan = table.scan(where=where, columns=_SHOWN)
    found = scan.to_arrow()
    keys = [(k, "ascending") for k in KEYS]
    if not found.sort_by(keys).equals(expected.sort_by(keys)):
        raise SystemExit(f"{where}: other rows than a full scan gives")
    explained = scan.explain().metrics
    if explained.read != scan.metrics.read or explained.rows_selected != found.num_rows:
        raise SystemExit(f"{where}: the explanation says {explained.read}, the run counted {scan.metrics.read}")
    seconds, cpu = best(lambda: table.scan(where=where, columns=_SHOWN).to_arrow(), rounds)
    holding = explained.read.files - explained.false_positives
    return Figure(where, seconds, cpu, found.num_rows, explained.read.files, holding, explained.read.row_groups_read)


def opened(table: Table, everything: pa.Table) -> Figure:
    """Return files that the bloom filter of l_partkey opens for values inside every file's bounds, beside those that hold them."""
    values = everything.column("l_partkey")
    asked = np.unique(values.take(pa.array(np.linspace(0, len(values) - 1, _PROBES).astype(np.int64))).to_numpy())
    files = holding = rows = 0
    for value in asked.tolist():
        figures = table.scan(where=f"l_partkey = {value}", columns=list(KEYS)).explain().metrics
        files += figures.read.files
        holding += figures.read.files - figures.false_positives
        rows += figures.rows_selected
    if rows != pc.sum(pc.is_in(values, value_set=pa.array(asked))).as_py():
        raise SystemExit("bloom probes: other rows than a full scan gives")
    return Figure(f"{len(asked)} values of l_partkey, one by one", rows=rows, files=files, files_holding=holding,
                  times_holding=round(files / holding, 4))  # fmt: skip


def full_scan(table: Table, everything: pa.Table, rounds: int) -> Figure:
    """Return all rows of three columns."""
    sums = sums_of(everything)

    def work() -> None:
        found = [sums_of(rows) for rows in table.scan(columns=THREE).batches()]
        if [sum(s) for s in zip(*found, strict=True)] != sums:
            raise SystemExit("full scan: other sums than an unpruned scan gives")

    return Figure("full scan of three columns", *best(work, rounds), everything.num_rows)


def sums_of(rows: pa.Table) -> list[Any]:
    """Return the number of rows, and the sum of each of the three columns."""
    return [rows.num_rows, *(pc.sum(rows.column(c)).as_py() for c in THREE)]


def spark_scan(table: Table, everything: pa.Table, rounds: int) -> Figure:
    """Return all rows of three columns through the Spark data source, in a warm session on two cores."""
    spark = get_session(master="local[2]")
    try:
        wanted = sums_of(everything)

        def work() -> None:
            (row,) = (
                read_table(spark, table.uri, columns=THREE)
                .selectExpr("count(1)", *(f"sum({c})" for c in THREE))
                .collect()
            )
            if list(row) != wanted:
                raise SystemExit(f"Spark: {list(row)} instead of {wanted}")

        work()
        usage, found = Usage(), []
        for _ in range(rounds):
            clock, cpu = time.perf_counter(), usage.cpu()
            work()
            found.append((time.perf_counter() - clock, usage.cpu() - cpu))
        seconds, cpu = (min(f[i] for f in found) for i in (0, 1))
    finally:
        spark.stop()
    return Figure("Spark data source, three columns", seconds, cpu, everything.num_rows)


def write_overhead(table: Table, folder: Path, rounds: int) -> list[Figure]:
    """Measure writing one data file with and without a bloom filter over one column, all columns of the table; turn by turn."""
    schema = table.schema
    rows = table.scan(limit=500_000).to_arrow()
    n = rows.num_rows
    kv = pa.table(
        [pa.array(np.arange(n)), pa.array(np.zeros(n, np.int8)), *rows.columns], schema=schema.kv_arrow_schema
    )
    indexed = [IndexedColumn("l_partkey", "l_partkey", None, "bloom-filter", {"items": str(n)})]
    store = open_store(str(folder))

    def write(*, index: bool) -> None:
        builder = (lambda: DataFileIndexWriter(schema, indexed, threshold=500)) if index else None
        DataFileWriter(
            schema, store=store, bucket_dir=str(folder), names=NewFileNames(), index_builder=builder
        ).write_all([kv])
        for file in folder.iterdir():
            file.unlink()

    folder.mkdir(parents=True)
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(2 * rounds):
        for index in found:
            found[index].append(best(lambda index=index: write(index=index), 1))  # type: ignore[misc]
    plain, plain_cpu = (min(t[i] for t in found[False]) for i in (0, 1))
    with_index, index_cpu = (min(t[i] for t in found[True]) for i in (0, 1))
    times = round(max(with_index / plain, index_cpu / plain_cpu), 4)
    return [
        Figure(f"write {n} rows, no index", plain, plain_cpu, n),
        Figure(f"write {n} rows, bloom filter of l_partkey", with_index, index_cpu, n,
               times_without=times),
    ]  # fmt: skip


def measure(table: Table, folder: Path, rounds: int, *, spark: bool) -> list[Figure]:
    """Measure everything."""
    everything = table.scan(columns=[*_SHOWN, "l_extendedprice"]).to_arrow()
    some = everything.column("l_partkey")[everything.num_rows // 2].as_py()
    comment = table.scan(columns=["l_comment"], limit=1).to_arrow().column(0)[0].as_py()
    # Not there, but between the smallest and the largest comment of every file: only the bloom filter can tell.
    absent = (comment + "#").replace("'", "''")
    figures = [
        ask(table, everything, f"l_partkey = {some}", rounds),
        opened(table, everything),
        ask_absent(table, f"l_comment = '{absent}'", rounds),
        ask(table, everything, "l_shipmode = 'AIR' AND l_shipdate = DATE '1992-01-03'", rounds),
        full_scan(table, everything, rounds),
        *write_overhead(table, folder / "files", rounds),
    ]
    return [*figures, spark_scan(table, everything, rounds)] if spark else figures


def ask_absent(table: Table, where: str, rounds: int) -> Figure:
    """Return a value that is nowhere."""
    explained = table.scan(where=where).explain().metrics
    if explained.rows_selected or explained.planned_files != BUCKETS:
        raise SystemExit(f"{where}: {explained.rows_selected} rows, {explained.planned_files} files after statistics")
    seconds, cpu = best(lambda: table.scan(where=where).to_arrow(), rounds)
    return Figure(where[:60], seconds, cpu, 0, explained.read.files, 0, explained.read.row_groups_read)


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lakeidx-bench")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="lakeidx-bench-"))
    try:
        place = arguments.table or folder / "b.db" / "lineitem"
        if (place / "schema").exists():
            table = Table.open(str(place))
        else:
            table = build(str(place), arguments.lineitem or lineitem(arguments.scale, arguments.cache))
        figures = measure(table, folder, arguments.rounds, spark=not arguments.no_spark)
    finally:
        shutil.rmtree(folder)
    tell("Scans", figures, as_json=arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
