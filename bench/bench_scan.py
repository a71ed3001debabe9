"""Speed of reading a table with indexes: the lineitem table of TPC-H at scale 1, every result checked before it is timed.

    python bench/bench_scan.py --table DIR [--rounds 5] [--json]

DIR is a primary-key table with the columns of lineitem, compacted, with a bloom filter of l_partkey, a bitmap of l_shipmode
and a range bitmap of l_shipdate (``lakeidx index rebuild``). Expected rows come from filtering a full, unpruned scan with
Arrow. Wall time of the best round beside processor time, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.parquet_write import write_data_files
from lakeidx.file_index import DataFileIndexWriter, IndexedColumn
from lakeidx.format.file_names import NewFileNames
from lakeidx.predicate import filter_table
from lakeidx.storage import open_store
from lakeidx.table.handle import TableHandle, bind_where
from lakeidx.table.scan_plan import PlanOptions

_SHOWN = ["l_orderkey", "l_linenumber", "l_partkey", "l_shipmode", "l_shipdate"]
_UNPRUNED = PlanOptions(partitions=False, buckets=False, keys=False, values=False, file_index=False, row_groups=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    seconds, cpu_seconds   best round: on the clock, and of the processor
    files, row_groups      opened and decoded
    """

    case: str
    seconds: float
    cpu_seconds: float
    rows: int
    files: int | None = None
    files_holding: int | None = None
    row_groups: int | None = None


def best(work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """(seconds, processor seconds) of the fastest round, after one round to warm up."""
    work()
    out = []
    for _ in range(rounds):
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        out.append((time.perf_counter() - clock, time.process_time() - cpu))
    return min(o[0] for o in out), min(o[1] for o in out)


def ask(table: TableHandle, everything: pa.Table, where: str, rounds: int) -> Figure:
    """Check and time one question."""
    expected = filter_table(bind_where(where, table.schema), everything)
    scan = table.scan(where=where, columns=_SHOWN)
    found = scan.to_arrow()
    keys = [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    if not found.sort_by(keys).equals(expected.sort_by(keys)):
        raise SystemExit(f"{where}: other rows than a full scan gives")
    explained = scan.explain().figures
    seconds, cpu = best(lambda: table.scan(where=where, columns=_SHOWN).to_arrow(), rounds)
    holding = explained.read.files - explained.opened_for_nothing
    return Figure(where, seconds, cpu, found.num_rows, explained.read.files, holding, explained.read.row_groups_read)


def count_and_sum(table: TableHandle, expected: pa.Table, rounds: int) -> Figure:
    """Count of rows and sum of one column."""
    total = 0

    def work() -> None:
        nonlocal total
        total = 0
        for rows in table.scan(columns=["l_orderkey"]).batches():
            total += pc.sum(rows.column(0)).as_py()

    seconds, cpu = best(work, rounds)
    if total != pc.sum(expected.column("l_orderkey")).as_py():
        raise SystemExit("count and sum: another sum than a full scan gives")
    return Figure("count and sum of one column", seconds, cpu, expected.num_rows)


def write_overhead(table: TableHandle, folder: str, rounds: int) -> list[Figure]:
    """Writing one data file with and without a bloom filter over one column, all columns of the table."""
    schema = table.schema
    rows = table.scan(limit=500_000).to_arrow()
    n = rows.num_rows
    kv = pa.table(
        [pa.array(np.arange(n)), pa.array(np.zeros(n, np.int8)), *rows.columns], schema=schema.kv_arrow_schema
    )
    indexed = [IndexedColumn("l_partkey", "l_partkey", None, "bloom-filter", {"items": str(n)})]
    store = open_store(folder)

    def write(*, index: bool) -> None:
        builder = (lambda: DataFileIndexWriter(schema, indexed, threshold=500)) if index else None
        write_data_files(
            iter([kv]), schema, store=store, bucket_dir=folder, names=NewFileNames(), index_builder=builder
        )

    return [
        Figure(f"write {n} rows, {name}", *best(lambda i=i: write(index=i), rounds), n)  # type: ignore[misc]
        for name, i in (("no index", False), ("bloom filter of l_partkey", True))
    ]


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", required=True)
    parser.add_argument("--scratch", help="folder for the files of the write test; without it there is none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    table = TableHandle.open(arguments.table)
    everything = table.scan(columns=_SHOWN, layers=_UNPRUNED).to_arrow()
    some = everything.column("l_partkey")[everything.num_rows // 2].as_py()
    figures = [
        ask(table, everything, f"l_partkey = {some}", arguments.rounds),
        ask(table, everything, "l_partkey = 100000001", arguments.rounds),
        ask(table, everything, "l_shipmode = 'AIR' AND l_shipdate = DATE '1992-01-03'", arguments.rounds),
        count_and_sum(table, everything, arguments.rounds),
    ]
    if arguments.scratch:
        figures += write_overhead(table, arguments.scratch, arguments.rounds)
    for f in figures:
        if arguments.json:
            print(json.dumps(asdict(f)))
        else:
            opened = (
                "" if f.files is None else f"{f.files} files ({f.files_holding} hold rows), {f.row_groups} row groups"
            )
            print(
                f"{f.case:<62} {f.seconds * 1000:8.1f} ms {f.cpu_seconds * 1000:8.1f} ms cpu {f.rows:>8} rows  {opened}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
