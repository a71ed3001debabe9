"""Speed of point lookups in TPC-H lineitem: first call, warm calls, missing keys, and the stage that builds the lookup files.

    python bench/bench_point_lookup.py --table DIR [--lineitem FILE] [--compression none] [--keys 1000] [--rounds 10]

With --lineitem the table is made of that Parquet file (dynamic buckets of 500,000 rows) unless it is there. Every warm round asks
other keys. Answers are checked against the file's key columns before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.api import Table
from lakeidx.lookup import warm_up
from lakeidx.lookup.point import TableLookup
from lakeidx.pipeline.lookup_store import run_lookup_store
from lakeidx.pipeline.runner import LocalRunner

KEYS = ["l_orderkey", "l_linenumber"]


def type_of(t: pa.DataType) -> str:
    """Type text of a lineitem column."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    return {"int64": "BIGINT", "int32": "INT", "date32[day]": "DATE"}.get(str(t), "STRING")


def make_table(uri: str, lineitem: str, compression: str) -> Table:
    """The table, filled once."""
    schema = pq.ParquetFile(lineitem).schema_arrow
    spec = {
        "fields": [{"name": f.name, "type": f"{type_of(f.type)} NOT NULL"} for f in schema],
        "primaryKeys": KEYS,
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "500000",
                    "lookup.cache-spill-compression": compression},
    }  # fmt: skip
    table = Table.create(uri, spec)
    table.upsert_files([lineitem], batch_id="load", runner=LocalRunner(2))
    return table


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", required=True)
    parser.add_argument("--lineitem", default=None)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    a = parser.parse_args()
    there = Path(a.table, "schema").exists()
    table = Table.open(a.table) if there else make_table(a.table, a.lineitem, a.compression)
    report = run_lookup_store(table.metadata, LocalRunner(2))
    rng = np.random.default_rng(1)
    all_keys = table.scan(columns=KEYS).to_arrow().select(KEYS)
    picks = [all_keys.take(pa.array(rng.integers(0, all_keys.num_rows, a.keys))) for _ in range(a.rounds)]
    absent = [p.set_column(1, KEYS[1], pa.array(np.asarray(p.column(1)) + 100, pa.int32())) for p in picks]
    warm_up()
    # Kernels of routing and decoding are loaded by a lookup in a table object of its own.
    TableLookup(Table.open(a.table).metadata).lookup(picks[0].slice(0, 1))
    lookup = TableLookup(Table.open(a.table).metadata)
    started = time.perf_counter()
    answer = lookup.lookup(picks[0])
    first = time.perf_counter() - started
    assert answer.found.all()
    assert answer.rows.select(KEYS).equals(picks[0].cast(answer.rows.select(KEYS).schema))

    def times(batches: list[pa.Table], expect: bool) -> list[float]:
        out = []
        for keys in batches:
            begin = time.perf_counter()
            found = lookup.lookup(keys).found
            out.append(time.perf_counter() - begin)
            assert bool(found.all()) if expect else not found.any()
        return out

    other, again, missing = times(picks[1:], True), times(picks[1:], True), times(absent, False)
    figures = {
        "rows": all_keys.num_rows,
        "keys": a.keys,
        "build": report.model_dump(),
        "first_call_ms": round(first * 1e3, 2),
        "warm_new_keys_ms": {"min": round(min(other) * 1e3, 2), "median": round(float(np.median(other)) * 1e3, 2)},
        "warm_same_keys_ms": {"min": round(min(again) * 1e3, 2), "median": round(float(np.median(again)) * 1e3, 2)},
        "missing_keys_ms": {"min": round(min(missing) * 1e3, 2), "median": round(float(np.median(missing)) * 1e3, 2)},
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
