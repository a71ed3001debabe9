"""Speed of the merge engines per core: rows in per second, as merge-on-read and compaction feed them.

1 M rows of 300 k keys (as many keys with one record as with several), 30 % nulls. Every case is first checked against the
record-at-a-time engine on keys spread over the whole table, then timed on all rows, one thread, best of several rounds.

    python -m bench.bench_engines [--rows 1000000] [--keys 300000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from bench.clock import best_of
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.engines import make_engine
from lakeidx.data.engines.java_order import identity
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.testing.reference_engines import Record, make_reference_engine, merge_reduced
from lakeidx.types import Field, parse_type, to_arrow

SEED = 20130101
SAMPLE_KEYS = 300
TYPES = {
    "id": "BIGINT NOT NULL", "i": "INT", "l": "BIGINT", "d": "DOUBLE", "s": "STRING", "dec": "DECIMAL(15, 2)",
    "wide": "DECIMAL(30, 2)", "ts": "TIMESTAMP(6)", "s1": "INT", "a": "STRING", "b": "INT",
}  # fmt: skip
ALL = ("id", "i", "l", "d", "s", "dec", "wide", "ts")


@dataclass(frozen=True, slots=True)
class Case:
    """Options and columns of one measurement; `deletes` is the share of -D rows."""

    name: str
    options: Mapping[str, str]
    columns: tuple[str, ...]
    deletes: float = 0.0


@dataclass(frozen=True, slots=True)
class Figure:
    """Million rows taken in per second, one thread."""

    case: str
    rows: int
    keys: int
    columns: int
    seconds: float
    cpu_seconds: float
    million_per_s: float
    numpy: str = field(default=np.__version__)


def aggregation(function: str, *columns: str) -> Case:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": function}
    return Case(f"aggregation {function} ({', '.join(columns)})", options, ("id", *columns))


PARTIAL = {"merge-engine": "partial-update"}
GROUP = ("id", "s1", "a", "b", "d")
CASES = [
    Case("deduplicate", {}, ALL),
    Case("deduplicate, ignore-delete", {"ignore-delete": "true"}, ALL, 0.1),
    Case("first-row", {"merge-engine": "first-row"}, ALL),
    Case("partial-update", PARTIAL, ALL),
    Case("partial-update, removing deletes", PARTIAL | {"partial-update.remove-record-on-delete": "true"}, ALL, 0.1),
    Case("partial-update, one group", PARTIAL | {"fields.s1.sequence-group": "a,b"}, GROUP),
    Case(
        "partial-update, group with sum and deletes",
        PARTIAL | {"fields.s1.sequence-group": "a,b", "fields.b.aggregate-function": "sum"},
        GROUP,
        0.1,
    ),
    aggregation("sum", "i", "l", "d"),
    aggregation("sum", "dec"),
    aggregation("sum", "wide"),
    aggregation("product", "dec"),
    aggregation("max", "i", "l", "d", "ts"),
    aggregation("max", "s"),
    aggregation("last_value", *ALL[1:]),
    aggregation("last_non_null_value", *ALL[1:]),
    aggregation("first_non_null_value", *ALL[1:]),
    aggregation("listagg", "s"),
]


def make_columns(rows: int, keys: int) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return all columns by name, and the start of each key's run."""
    rng = np.random.default_rng(SEED)
    ids = np.sort(np.concatenate([np.arange(keys), rng.integers(0, keys, rows - keys)]))
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]).astype(np.int64)

    def some(column: pa.Array) -> pa.Array:
        return pc.if_else(pa.array(rng.random(rows) < 0.3), pa.scalar(None, column.type), column)

    cents = rng.integers(-(10**9), 10**9, rows)
    words = np.stack([cents, np.where(cents < 0, -1, 0)], axis=1).astype("<i8")
    texts = pa.array([f"value number {i}" for i in range(100_000)])
    drawn = {
        "i": pa.array(rng.integers(-1000, 1000, rows).astype(np.int32)),
        "l": pa.array(rng.integers(-1000, 1000, rows)),
        "d": pa.array(rng.random(rows)),
        "s": texts.take(pa.array(rng.integers(0, len(texts), rows))),
        "ts": pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us")),
        "s1": pa.array(rng.integers(0, 100, rows).astype(np.int32)),
        "a": texts.take(pa.array(rng.integers(0, len(texts), rows))),
        "b": pa.array(rng.integers(0, 100, rows).astype(np.int32)),
    }
    for name in ("dec", "wide"):
        drawn[name] = pa.Array.from_buffers(to_arrow(parse_type(TYPES[name])), rows, [None, pa.py_buffer(words)])
    return {"id": pa.array(ids)} | {n: some(c) for n, c in drawn.items()}, starts


def make_case(case: Case, columns: Mapping[str, pa.Array]) -> tuple[TableSchema, pa.Table]:
    """Return schema and key-value table of a case."""
    fields = tuple(Field(i, c, parse_type(TYPES[c])) for i, c in enumerate(case.columns))
    schema = TableSchema(id=0, fields=fields, highest_field_id=99, primary_keys=("id",), options=dict(case.options))
    rows = len(columns["id"])
    kinds = np.where(np.random.default_rng(SEED).random(rows) < case.deletes, 3, 0)
    arrays = [pa.array(np.arange(rows)), pa.array(kinds, pa.int8()), *(columns[c] for c in case.columns)]
    return schema, pa.table(arrays, names=schema.kv_arrow_schema.names)


def check(schema: TableSchema, kv: pa.Table, starts: np.ndarray) -> None:
    """Compare with the record-at-a-time engine on keys spread over the table; SystemExit when they differ."""
    every = max(1, len(starts) // SAMPLE_KEYS)
    chosen = np.arange(0, len(starts), every)
    ends = np.append(starts[1:], kv.num_rows)
    rows = np.concatenate([np.arange(starts[g], ends[g]) for g in chosen])
    lengths = (ends - starts)[chosen]
    sample = kv.take(pa.array(rows))
    sample_starts = np.cumsum(np.append(0, lengths[:-1]))
    got = records_of(schema, make_engine(schema).merge(sample, sample_starts, shortcut=True))
    given = records_of(schema, sample)
    twin = make_reference_engine(schema)
    runs = [given[s : s + n] for s, n in zip(sample_starts.tolist(), lengths.tolist(), strict=True)]
    merged = [merge_reduced(twin, run) for run in runs]
    if [plain(schema, r) for r in got] != [plain(schema, r) for r in merged if r is not None]:
        raise SystemExit("the engine and its plain twin differ; nothing was timed")


def records_of(schema: TableSchema, kv: pa.Table) -> list[Record]:
    values = zip(*(arrow_to_internal(kv.column(f.name), f.type) for f in schema.fields), strict=True)
    kinds, sequences = kv.column("_VALUE_KIND").to_pylist(), kv.column("_SEQUENCE_NUMBER").to_pylist()
    return [Record(k, s, v) for k, s, v in zip(kinds, sequences, values, strict=True)]


def plain(schema: TableSchema, record: Record) -> tuple[object, ...]:
    values = tuple(identity(v, f.type) for v, f in zip(record.values, schema.fields, strict=True))
    return record.kind, record.sequence, values


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON line per measurement instead of the table")
    args = parser.parse_args(argv)
    pa.set_cpu_count(1)
    columns, starts = make_columns(args.rows, args.keys)
    figures = []
    for case in CASES:
        schema, kv = make_case(case, columns)
        check(schema, kv, starts)
        engine = make_engine(schema)
        best, cpu = best_of(args.rounds, partial(engine.merge, kv, starts, shortcut=True))
        figures.append(Figure(case.name, args.rows, args.keys, len(case.columns), best, cpu, args.rows / best / 1e6))
    if args.json:
        for f in figures:
            print(json.dumps(asdict(f) | {"machine": platform.machine(), "python": platform.python_version()}))
    else:
        table = Table(
            "engine", "columns", "ms", "million rows/s", title=f"{args.rows:,} rows, {args.keys:,} keys, one core"
        )
        for f in figures:
            table.add_row(f.case, str(f.columns), f"{f.seconds * 1000:.1f}", f"{f.million_per_s:.1f}")
        Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
