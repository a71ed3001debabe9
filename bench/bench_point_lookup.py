"""Speed of point lookups in TPC-H lineitem: first call, keys never asked before, the same keys again, missing keys.

The table is loaded from lineitem (6,001,215 rows at scale 1, dynamic buckets of 500,000 rows), the stage builds its lookup
files, and every round asks other random keys. All answers, row by row and column by column, are compared with those rows as a
scan gives them; absent keys must not be found. "first" is the first call of a table object: it reads the metadata and the hash
index and opens the lookup files. Times of a call are the least and the median of the rounds, by the clock, and the median of the
processor's time.

    python -m bench.bench_point_lookup [--lineitem FILE | --scale 1] [--cases default,hash] [--keys 1000] [--rounds 10] [--json]

Without --lineitem the data comes from tpchgen-cli (PyPI) into a cache folder. Cases: "default" is what the stage does when the
table's options say nothing; "none-64k", "zstd-16k" and "zstd-64k" set codec and block size ("zstd-64k" is Paimon's default for
scratch files); "hash" is the hash store, else by default; "position" and "key" hold no rows, which are read from data files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import tell
from bench.lineitem import lineitem
from lakeidx.api import Table
from lakeidx.format.schema.changes import evolve
from lakeidx.format.schema.option_changes import remove_options, set_options
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.maintenance.warm_up import warm_up
from lakeidx.tasks.runner import LocalRunner

KEYS = ["l_orderkey", "l_linenumber"]
CASES = {
    "default": {},
    "none-64k": {"lookup.cache-spill-compression": "none", "cache-page-size": "64 kb"},
    "zstd-16k": {"lookup.cache-spill-compression": "zstd", "cache-page-size": "16 kb"},
    "zstd-64k": {"lookup.cache-spill-compression": "zstd", "cache-page-size": "64 kb"},
    "hash": {"lookup.store.type": "hash"},
    "position": {"lookup.store.values": "position"},
    "key": {"lookup.store.values": "key"},
}
SEED = 1
BUILD_WORKERS = 2


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    case        see CASES
    operation   build, or what the call asks for
    ms          least of the rounds, by the clock; median_ms their median; cpu_ms median processor time
    per_call    keys of a call; entries of a build
    megabytes   of lookup files
    """

    case: str
    operation: str
    per_call: int
    ms: float
    median_ms: float
    cpu_ms: float
    rows: int
    megabytes: float


def type_of(t: pa.DataType) -> str:
    """Return the type text of a lineitem column."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    return {"int64": "BIGINT", "int32": "INT", "date32[day]": "DATE"}.get(str(t), "STRING")


def make_table(uri: str, source: Path) -> Table:
    """Make the table and fill it once."""
    spec = {
        "fields": [
            {"name": f.name, "type": f"{type_of(f.type)} NOT NULL"} for f in pq.ParquetFile(source).schema_arrow
        ],
        "primaryKeys": KEYS,
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "500000"},
    }
    table = Table.create(uri, spec)
    table.upsert_files([str(source)], batch_id="load", runner=LocalRunner(BUILD_WORKERS))
    return table


def sample(table: Table, rows: int, calls: int, keys: int) -> list[pa.Table]:
    """Return for each call some random rows, from one scan that holds no more than a batch of it."""
    wanted = np.random.default_rng(SEED).integers(0, rows, (calls, keys))
    chosen, at = np.unique(wanted), 0
    parts = []
    for batch in table.scan().batches():
        first, last = np.searchsorted(chosen, [at, at + batch.num_rows])
        parts.append(batch.take(pa.array(chosen[first:last] - at)))
        at += batch.num_rows
    assert at == rows, f"the scan gives {at} rows, the table has {rows}"
    scanned = pa.concat_tables(parts)
    return [scanned.take(pa.array(np.searchsorted(chosen, one))) for one in wanted]


def measure(case: str, uri: str, expected: Sequence[pa.Table], rows: int) -> list[Figure]:
    """Build the lookup files with the options of a case, and ask."""
    table = Table.open(uri)
    # What the case before has set would count for this one.
    others = sorted({option for options in CASES.values() for option in options} & set(table.schema.options))
    changes = [*([remove_options(others)] if others else []), set_options(CASES[case])]
    schema = evolve(table.schema, changes)
    assert table.store.put_if_absent(table.paths.schema_path(schema.id), encode_schema(schema))
    table = Table.open(uri)
    for path in [f.path for f in table.store.walk(f"{uri}/lookup")]:
        table.store.delete(path)
    used = time.process_time()
    report = run_lookup_store(table.metadata, LocalRunner(BUILD_WORKERS))
    cpu_ms = round((time.process_time() - used) * 1e3, 1)
    assert report.entries == rows
    megabytes = round(report.bytes / 1e6, 1)
    build_ms = round(report.seconds * 1e3, 1)
    figures = [Figure(case, "build", rows, build_ms, build_ms, cpu_ms, rows, megabytes)]
    keys = [e.select(KEYS) for e in expected]
    absent = [k.set_column(1, KEYS[1], pa.array(np.asarray(k.column(1)) + 100, pa.int32())) for k in keys]
    # Kernels of routing and decoding are loaded by a lookup of a table object of its own.
    TableLookup(table.metadata).lookup(keys[0].slice(0, 1))
    lookup = TableLookup(Table.open(uri).metadata)

    def ask(operation: str, calls: Sequence[int], *, present: bool = True) -> None:
        wall, cpu = [], []
        for i in calls:
            asked = keys[i] if present else absent[i]
            used, begun = time.process_time(), time.perf_counter()
            answer = lookup.lookup(asked)
            wall.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
            if present:
                assert answer.rows.equals(expected[i].select(answer.rows.column_names).cast(answer.rows.schema))
            assert bool(answer.found.all()) if present else not answer.found.any()
        least, median, processor = (round(float(f(x)) * 1e3, 2) for f, x in
                                    ((np.min, wall), (np.median, wall), (np.median, cpu)))  # fmt: skip
        figures.append(Figure(case, operation, len(keys[0]), least, median, processor, rows, megabytes))

    ask("first", [0])
    rest = range(1, len(keys))
    ask("new keys", rest)
    ask("same keys", rest)
    ask("missing keys", rest, present=False)
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lakeidx-bench")
    parser.add_argument("--cases", default="default,zstd-64k,hash,position,key", help=", ".join(CASES))
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    cases = args.cases.split(",")
    if unknown := sorted(set(cases) - set(CASES)):
        parser.error(f"unknown case {unknown[0]}; there are {', '.join(CASES)}")
    source = args.lineitem or lineitem(args.scale, args.cache)
    rows = pq.ParquetFile(source).metadata.num_rows
    warm_up(packages=("lakeidx.lookup",), processes=1)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        uri = f"{folder}/wh/b.db/lineitem"
        expected = sample(make_table(uri, source), rows, args.rounds + 1, args.keys)
        for case in cases:
            figures += measure(case, uri, expected, rows)
    tell(f"Point lookups, {rows:,} rows, local disk", figures, as_json=args.json)


if __name__ == "__main__":
    main()
