"""Speed of the row, hash and key-order codecs per core.

Every case is first checked against the scalar codec (or Python's own sort under the scalar comparator) on a sample that is
spread over all rows, then timed on all rows, one thread, best of several rounds. Targets are those of the project: hashing
BIGINT keys 30 M/s, 16-byte strings 5 M/s, (BIGINT, INT) 20 M/s; sorting random (BIGINT, INT) keys 5 M/s.

    python -m bench.bench_codec [--rows 1000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.clock import best_of
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.order.key import (
    argsort_keys,
    compare_rows,
    is_sorted,
    normalized_keys,
    run_starts,
    search_sorted,
)
from lakeidx.codec.rows.binary_row import encode_row
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.compacted_row_vec import decode_compacted_rows, encode_compacted_rows
from lakeidx.codec.values import arrow_to_internal
from lakeidx.types import DataType, parse_type

SAMPLE_ROWS = 300
SEED = 20130101
BUCKETS = 64


@dataclass(frozen=True, slots=True)
class Keys:
    """Columns of one shape and why they are measured."""

    name: str
    why: str
    columns: Sequence[pa.Array]
    types: Sequence[DataType]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: `operation` over `rows` rows of `keys`; the best round's seconds, by the clock and of the
    processor, and million rows per second.
    """

    operation: str
    keys: str
    rows: int
    seconds: float
    cpu_seconds: float
    million_per_s: float
    target: float | None


def make_keys(n: int) -> list[Keys]:
    """Return seeded key columns of n rows."""
    rng = np.random.default_rng(SEED)
    wide = pa.array(rng.integers(-(2**63), 2**63 - 1, n))
    order = pa.array(rng.integers(1, 6_000_000, n))
    line = pa.array(rng.integers(1, 8, n).astype(np.int32))
    letters = pa.py_buffer(rng.integers(ord("a"), ord("z") + 1, 16 * n).astype(np.uint8))
    offsets = pa.py_buffer((np.arange(n + 1) * 16).astype(np.int32))
    text = pa.Array.from_buffers(pa.string(), n, [None, offsets, letters])
    day = np.datetime64("2013-01-01T00:00", "us").astype(np.int64)
    hours = pa.array(day + rng.integers(0, 8760, n) * 3_600_000_000).cast(pa.timestamp("us"))
    carrier = pa.array(np.array(["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"])[rng.integers(0, 8, n)])
    cents = pa.array(rng.integers(-(10**15), 10**15, n)).cast(pa.decimal128(38, 0))
    nullable = pa.array(np.asarray(wide), mask=rng.random(n) < 0.1)
    bigint, integer, string = parse_type("BIGINT"), parse_type("INT"), parse_type("STRING")
    return [
        Keys("BIGINT", "one word, all values differ", [wide], [bigint]),
        Keys("BIGINT, INT", "order and line number of a line item", [order, line], [bigint, integer]),
        Keys("BIGINT 10% null", "null bits in the header", [nullable], [bigint]),
        Keys("STRING(16)", "variable part of 16 bytes", [text], [string]),
        Keys("TIMESTAMP(6), STRING, INT", "hour, carrier and flight", [hours, carrier, line],
             [parse_type("TIMESTAMP(6)"), string, integer]),
        Keys("DECIMAL(38, 0)", "16 reserved bytes", [cents], [parse_type("DECIMAL(38, 0)")]),
    ]  # fmt: skip


TARGETS = {
    ("hash", "BIGINT"): 30.0,
    ("hash", "STRING(16)"): 5.0,
    ("hash", "BIGINT, INT"): 20.0,
    ("argsort", "BIGINT, INT"): 5.0,
}


def expect(ok: bool, operation: str, keys: Keys) -> None:
    """Stop the run when a result is not that of the scalar codec."""
    if not ok:
        sys.exit(f"{operation} of {keys.name}: the result differs from the scalar codec")


def check(keys: Keys) -> None:
    """Compare every operation with its scalar twin on a sample of rows."""
    n = len(keys.columns[0])
    at = np.unique(np.linspace(0, n - 1, SAMPLE_ROWS).astype(np.int64))
    sample = [arrow_to_internal(c.take(pa.array(at)), t) for c, t in zip(keys.columns, keys.types, strict=True)]
    rows = [list(r) for r in zip(*sample, strict=True)]
    wanted = [encode_row(r, keys.types) for r in rows]
    hashes = [hash_words(r) for r in wanted]
    encoded = encode_rows(keys.columns, keys.types)
    expect([encoded[i] for i in at] == wanted, "encode", keys)
    expect(hash_columns(keys.columns, keys.types)[at].tolist() == hashes, "hash", keys)
    buckets = fixed_buckets(keys.columns, keys.types, BUCKETS)[at].tolist()
    expect(buckets == [abs(h) % BUCKETS for h in hashes], "bucket", keys)
    packed = encode_compacted_rows(keys.columns, keys.types)
    expect([packed[i] for i in at] == [encode_compacted(r, keys.types) for r in rows], "encode compacted", keys)
    names = [str(i) for i in range(len(keys.types))]
    back = decode_compacted_rows(packed, keys.types, names)
    expect(
        all(x.equals(pa.chunked_array([c])) for x, c in zip(back.columns, keys.columns, strict=True)), "decode", keys
    )
    small = [c.take(pa.array(at)) for c in keys.columns]

    def compare(i: int, j: int) -> int:
        return compare_rows(rows[i], rows[j], keys.types)

    in_order = sorted(range(len(rows)), key=cmp_to_key(compare))
    expect(argsort_keys(small, keys.types).tolist() == in_order, "argsort", keys)
    order = argsort_keys(keys.columns, keys.types)
    expect(np.array_equal(np.sort(order), np.arange(n)), "argsort", keys)
    ordered = [c.take(pa.array(order)) for c in keys.columns]
    expect(is_sorted(ordered, keys.types), "is sorted", keys)
    held = normalized_keys(ordered, keys.types)
    found = search_sorted(held, normalized_keys(small, keys.types))
    starts = run_starts(ordered, keys.types)
    expect(bool(np.isin(found, starts).all()), "search", keys)
    for i, row in zip(found.tolist(), rows, strict=True):
        value = [arrow_to_internal(c.slice(i, 1), t)[0] for c, t in zip(ordered, keys.types, strict=True)]
        expect(compare_rows(value, row, keys.types) == 0, "search", keys)


def operations(keys: Keys) -> list[tuple[str, Callable[[], Any]]]:
    """Return what is timed, with inputs made before the clock runs."""
    columns, types = keys.columns, keys.types
    packed = encode_compacted_rows(columns, types)
    names = [str(i) for i in range(len(types))]
    order = pa.array(argsort_keys(columns, types))
    ordered = [c.take(order) for c in columns]
    held = normalized_keys(ordered, types)
    return [
        ("hash", lambda: hash_columns(columns, types)),
        ("bucket", lambda: fixed_buckets(columns, types, BUCKETS)),
        ("encode", lambda: encode_rows(columns, types)),
        ("encode compacted", lambda: encode_compacted_rows(columns, types)),
        ("decode compacted", lambda: decode_compacted_rows(packed, types, names)),
        ("argsort", lambda: argsort_keys(columns, types)),
        ("argsort, in order", lambda: argsort_keys(ordered, types)),
        ("run starts", lambda: run_starts(ordered, types)),
        ("normalize", lambda: normalized_keys(columns, types)),
        ("search, in order", lambda: search_sorted(held, held)),
    ]


def measure(keys: Keys, rounds: int) -> list[Figure]:
    """Measure the best round of every operation."""
    n = len(keys.columns[0])
    figures = []
    for name, run in operations(keys):
        seconds, cpu = best_of(rounds, run)
        figures.append(Figure(name, keys.name, n, seconds, cpu, n / seconds / 1e6, TARGETS.get((name, keys.name))))
    return figures


def show(figures: list[Figure]) -> None:
    """Print a table, one line per operation and one column per key shape; million rows per second."""
    shapes = list(dict.fromkeys(f.keys for f in figures))
    table = Table(title=f"million rows/s, one core, {figures[0].rows:,} rows; (>= target)")
    table.add_column("operation")
    for shape in shapes:
        table.add_column(shape, justify="right")
    for operation in dict.fromkeys(f.operation for f in figures):
        cells = []
        for shape in shapes:
            f = next(x for x in figures if x.operation == operation and x.keys == shape)
            target = f" (>= {f.target:g})" if f.target else ""
            colour = "red" if f.target and f.million_per_s < f.target else "green" if f.target else "default"
            cells.append(f"[{colour}]{f.million_per_s:.1f}{target}[/]")
        table.add_row(operation, *cells)
    Console(width=max(150, Console().width)).print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases; exit status 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON line per measurement instead of the table")
    args = parser.parse_args(argv)
    figures = []
    for keys in make_keys(args.rows):
        check(keys)
        figures += measure(keys, args.rounds)
    if args.json:
        machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
        for f in figures:
            print(json.dumps(asdict(f) | machine))
    else:
        show(figures)
    return int(any(f.target is not None and f.million_per_s < f.target for f in figures))


if __name__ == "__main__":
    sys.exit(main())
