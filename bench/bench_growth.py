"""What a batch of one size costs while its table grows: keys, buckets, partitions and data files, each with its slope.

The same number of random known keys is upserted into tables that differ in one measure only; for data files, which a table of
metadata alone has (`bench.metadata_table`), a batch of 100 files is planned and committed. Each point is a process of its own,
whose result is checked. A slope is that of the log-log line through the points: 0 follows the batch, 1 follows the table.

    python bench/bench_growth.py [--axis NAME ...] [--batch 100000] [--most FACTOR] [--picture FILE] [--json]

--most   leave out points above this share of the largest; 0.02 takes minutes instead of hours
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench import bench_metadata
from bench.metadata_table import make_metadata
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.metered_store import MeteredStore
from lakeidx.testing.peak_memory import peak_mib

#: Points of each axis; the other measures stay as `_LAYOUTS` says.
AXES: Mapping[str, tuple[int, ...]] = {
    "keys": (1_000_000, 4_000_000, 16_000_000, 64_000_000),
    "buckets": (100, 500, 2_000, 5_000, 20_000),
    "partitions": (1, 10, 100, 1_000, 10_000),
    "files": (1_000, 10_000, 100_000, 1_000_000),
}
FIGURES = ("seconds", "cpu", "peak_mib", "requests", "read_mib", "written_mib")
#: Keys of tables that do not grow by them, and rows of one batch that fills a table.
_KEYS, _FILL_ROWS = 2_000_000, 4_000_000


def layout(axis: str, size: int) -> tuple[int, int, int]:
    """Keys, fixed buckets (-1: dynamic ones of 2 million rows) and partitions of a point."""
    if axis == "keys":
        return size, -1, 1
    return (_KEYS, size, 1) if axis == "buckets" else (_KEYS, -1, size)


def rows(keys: np.ndarray[Any, Any], partitions: int, value: int) -> pa.Table:
    """Rows of some keys; a key's partition follows from it."""
    return pa.table(
        {
            "p": (keys % partitions).astype(np.int32),
            "k": keys.astype(np.int64),
            "v": np.full(len(keys), value, np.int64),
        }
    )


def filled(folder: Path, axis: str, size: int) -> TableHandle:
    """The table of a point."""
    keys, buckets, partitions = layout(axis, size)
    spec = {
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
        "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": str(buckets)},
    }  # fmt: skip
    table = TableHandle.create(f"{folder}/wh/b.db/{axis}_{size}", spec)
    for first in range(0, keys, _FILL_ROWS):
        chosen = np.arange(first, min(first + _FILL_ROWS, keys))
        upsert_table(make_context(table.metadata, f"fill-{first}"), rows(chosen, partitions, 0))
    return table


def upsert_known(uri: str, axis: str, size: int, batch: int) -> dict[str, float]:
    """Upsert random known keys (in a process of its own)."""
    if axis == "files":
        done = bench_metadata.run_case("commit", uri, size, Path(uri).parent)
        return {k: float(done[k]) for k in FIGURES if k in done}
    keys, _, partitions = layout(axis, size)
    chosen = np.random.default_rng(1).choice(keys, min(batch, keys), replace=False)
    opened = TableHandle.open(uri)
    store = MeteredStore(opened.store)
    table = TableHandle(store, opened.paths)
    # Kernels are compiled, and what every batch loads is loaded, before the clock starts.
    warm = TableHandle.create(f"{uri}_warm", json.loads(json.dumps(_spec_of(opened))))
    upsert_table(make_context(warm.metadata, "w"), rows(np.arange(1000), 1, 0))
    started, cpu = time.monotonic(), time.process_time()
    result = upsert_table(make_context(table.metadata, "b", runner=LocalRunner(2)), rows(chosen, partitions, 1))
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    if (result.assign.updates, result.assign.inserts) != (len(chosen), 0) and opened.schema.bucket < 0:
        raise AssertionError(f"{result.assign.updates} of {len(chosen)} known keys were found")
    if result.write.rows_written != len(chosen):
        raise AssertionError(f"{result.write.rows_written} of {len(chosen)} rows were written")
    return {"seconds": seconds, "cpu": cpu, "peak_mib": float(peak_mib()), **_traffic(store)}


def _spec_of(table: TableHandle) -> dict[str, Any]:
    schema = table.schema
    return {
        "fields": [{"name": f.name, "type": str(f.type)} for f in schema.fields],
        "primaryKeys": list(schema.primary_keys),
        "partitionKeys": list(schema.partition_keys),
        "options": {"bucket": "-1"},
    }


def _traffic(store: MeteredStore) -> dict[str, float]:
    read = sum(c.bytes for verb, c in store.counts.items() if verb.startswith("get"))
    written = sum(c.bytes for verb, c in store.counts.items() if verb.startswith("put"))
    return {"requests": store.total.requests, "read_mib": read / (1 << 20), "written_mib": written / (1 << 20)}


def measure(axis: str, size: int, batch: int, folder: Path) -> dict[str, float]:
    """One point; tables are filled here, and measured in a new process."""
    uri = make_metadata(folder, size) if axis == "files" else filled(folder, axis, size).uri
    command = [sys.executable, __file__, "--child", uri, "--axis", axis, "--size", str(size), "--batch", str(batch)]
    out = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if out.returncode:
        raise RuntimeError(out.stderr[-2000:])
    found: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return found


def slope(points: Sequence[tuple[int, float]]) -> float | None:
    """Slope of the log-log line through the points; None for fewer than two, or where a figure is 0."""
    if len(points) < 2 or any(y <= 0 for _, y in points):
        return None
    x, y = np.log([p[0] for p in points]), np.log([p[1] for p in points])
    return float(np.polyfit(x, y, 1)[0])


def draw(measured: Mapping[str, Mapping[int, Mapping[str, float]]], path: Path) -> None:
    """Log-log pictures, one for each axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(measured), figsize=(5 * len(measured), 4), squeeze=False)
    for place, (axis, points) in zip(axes[0], measured.items(), strict=True):
        for name in FIGURES:
            line = [(x, f[name]) for x, f in points.items() if f.get(name, 0) > 0]
            place.loglog([x for x, _ in line], [y for _, y in line], marker="o", label=name)
        place.set_xlabel(axis)
        place.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--axis", nargs="+", choices=tuple(AXES), default=list(AXES))
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        print(json.dumps(upsert_known(asked.child, asked.axis[0], asked.size, asked.batch)))
        return 0
    measured: dict[str, dict[int, dict[str, float]]] = {}
    for axis in asked.axis:
        for size in (n for n in AXES[axis] if n <= asked.most * AXES[axis][-1]):
            with tempfile.TemporaryDirectory(prefix="lakeidx-growth-") as folder:
                measured.setdefault(axis, {})[size] = measure(axis, size, asked.batch, Path(folder))
            if asked.json:
                print(json.dumps({"axis": axis, "size": size, "batch": asked.batch, **measured[axis][size]}))
    table = Table("axis", "size", *FIGURES)
    for axis, points in measured.items():
        for size, found in points.items():
            table.add_row(axis, f"{size:,}", *(f"{found[n]:,.2f}" if n in found else "" for n in FIGURES))
        slopes = [slope([(x, f[n]) for x, f in points.items() if n in f]) for n in FIGURES]
        table.add_row(axis, "slope", *("" if s is None else f"{s:.2f}" for s in slopes), end_section=True)
    if not asked.json:
        Console().print(table)
    if asked.picture is not None:
        draw(measured, asked.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
