"""What the rows of a batch take in the driver: large batches of narrow rows, through Spark, for every index type.

The table may hold `BUDGET` bytes of a batch in the driver, and Spark takes `RESULTS` of what tasks answer, so rows that come to the
driver show: as memory, or as an error of Spark. The driver is the Python process that runs the stages; tasks run in others.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.growth.model import ROWS
from bench.growth.points import TYPES, Measured, Point, rows
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.key_index.hbase.client import create_location_table
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.spark.runner import SparkRunner, get_session
from lakeidx.tasks.runner import Runner
from tests.kit.peak_memory import peak_mib
from tests.kit.upserts import upsert_files, upsert_table

SIZES = (5_000_000, 20_000_000, 80_000_000)
BUDGET, RESULTS, SLOTS = 128 << 20, "16m", 2
#: Keys that the table has before; all are among the batch's.
KNOWN = 500_000
_FILE_ROWS, _BUCKET_ROWS = 1_000_000, 2_000_000


def row_points(most: float, hbase_port: int) -> list[Point]:
    """Return a point for every type and size; `hbase` where its Thrift server listens."""
    types = (*TYPES, "hbase") if _listens(hbase_port) else TYPES
    return [Point(ROWS, n, keys=KNOWN, batch=n, index=t) for n in SIZES if n <= most * max(SIZES) for t in types]


def _listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def _options(point: Point, hbase_port: int) -> dict[str, str]:
    found = {
        **point.options(),
        "index.driver-memory": f"{BUDGET >> 20} mb",
        "hoodie.bucket.index.num.buckets": str(max(4, point.batch // _BUCKET_ROWS)),
    }
    if point.index != "bucket":
        del found["hoodie.bucket.index.num.buckets"]
    if point.index == "hbase":
        found |= {
            "hoodie.index.hbase.table": f"growth_{time.time_ns()}",
            "index.hbase.thrift.host": "127.0.0.1",
            "index.hbase.thrift.port": str(hbase_port),
            "hoodie.index.hbase.get.batch.size": "2000",
            "hoodie.index.hbase.put.batch.size": "2000",
            "index.hbase.max-requests-per-second": "10000000",
        }
        create_location_table(HBaseOptions(found))
    return found


def _keys(first: int, last: int) -> np.ndarray[Any, Any]:
    """Return distinct keys in no order: an odd factor permutes the numbers of 32 bits."""
    return (np.arange(first, last, dtype=np.uint64) * np.uint64(2_654_435_761) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _pieces(count: int) -> Iterator[np.ndarray[Any, Any]]:
    for first in range(0, count, _FILE_ROWS):
        yield _keys(first, min(first + _FILE_ROWS, count))


def filled_for_rows(folder: Path, point: Point, hbase_port: int) -> str:
    """Make the table with the keys that it knows, and landing files with the batch; gives its place."""
    spec = {
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
        "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": _options(point, hbase_port),
    }  # fmt: skip
    table = Table.create(f"{folder}/wh/b.db/{point.name}", spec)
    upsert_table(make_context(table.metadata, "fill"), rows(_keys(0, point.keys), 1, 0))
    landing = folder / "landing"
    landing.mkdir(exist_ok=True)
    for number, keys in enumerate(_pieces(point.batch)):
        pq.write_table(rows(keys, 1, 1), landing / f"{number:04d}.parquet")
    return table.uri


def upsert_rows(uri: str, point: Point) -> Measured:
    """Upsert the landing files with Spark (in a process of its own), and check the table."""
    folder = Path(uri).parents[2]
    session = get_session(master=f"local[{SLOTS}]", config={"spark.driver.maxResultSize": RESULTS})
    try:
        return upsert_rows_with(uri, point, SparkRunner(session), sorted(map(str, (folder / "landing").iterdir())))
    finally:
        session.stop()


def upsert_rows_with(uri: str, point: Point, runner: Runner, landing: list[str]) -> Measured:
    """Upsert landing files with a runner, in this process, and check the table."""
    table = Table.open(uri)
    # Kernels are compiled and Spark's workers started before: two batches placed in tasks, into a table of its own.
    warm = Table.create(f"{uri}_warm", {"fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"},
                              {"name": "v", "type": "BIGINT"}], "primaryKeys": ["p", "k"], "partitionKeys": ["p"],
                              "options": {"bucket": "-1"}})  # fmt: skip
    for turn in range(2):
        upsert_table(make_context(warm.metadata, f"w{turn}", runner=runner, driver_bytes=0), rows(_keys(0, 1000), 1, 0))
    base, cpu, started = psutil.Process().memory_info().rss >> 20, _cpu_seconds(), time.monotonic()
    result = upsert_files(make_context(table.metadata, "b", runner=runner), landing)
    whole = {
        "cpu": _cpu_seconds() - cpu,
        "seconds": time.monotonic() - started,
        "peak_mib": float(peak_mib() - base),
    }
    check_rows(uri, point)
    buckets = len(result.assign.targets)
    work = {"rows": point.batch, "keys": point.keys, "buckets": buckets, "partitions": 1, "files": buckets}
    return Measured(point, work, whole)


def _cpu_seconds() -> float:
    """Return what this process and all below it have used, those that have ended included."""
    me = psutil.Process()
    times = [p.cpu_times() for p in (me, *me.children(recursive=True))]
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def check_rows(uri: str, point: Point) -> None:
    """Compare the table with plain sums: every key once, with the value of the batch."""
    wanted = [point.batch, sum(int(k.sum()) for k in _pieces(point.batch)), point.batch]
    found = [0, 0, 0]
    for table in Table.open(uri).scan(columns=["k", "v"]).batches():
        found[0] += table.num_rows
        for at, name in enumerate(("k", "v"), 1):
            found[at] += _sum(table.column(name))
    if found != wanted:
        raise AssertionError(f"rows, sum of keys and sum of values are {found}, not {wanted}")


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
