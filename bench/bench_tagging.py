"""Time to tag a batch against a large table, for every index type. A type's answer is checked before it is timed, and
after every round.

A case is (index type, order of the keys). The table is a real one on the local disk: 6 M rows in 12 buckets, one data
file each, written by lakeidx's writer with bloom filters in the footers and HASH index files, and committed. The
batch has 600 k keys, nine tenths of them known.

    ordered   keys begin with a time; a file holds a stretch of it; nine tenths of the known keys are of the newest
              stretch
    random    keys are random; every file may hold every key

    python -m bench.bench_tagging [--rows 6000000] [--batch 600000] [--rounds 3] [--types hash,bloom] [--json FILE]

HBase is timed when its Thrift server (deploy/hbase/hbase.sh) listens on --hbase-port, with a batch of --hbase-batch keys; the
server decides how long that takes, so there is no limit. The run fails when a figure is over its limit at the default sizes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa

from bench.keyed_table import KeyedTable, id_texts, mixed, write_keyed_table
from lakeidx.key_index.hbase.client import create_location_table
from lakeidx.key_index.hbase.hbase_index import HBaseKeyIndex
from lakeidx.key_index.locations import KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import KeyIndex
from lakeidx.key_index.registry import make_key_index
from lakeidx.key_index.state.state_index import StateKeyIndex
from tests.scalar_twins import bucket_of

BUCKETS = 12
ORDERS = ("ordered", "random")
TYPES = ("hash", "bucket", "bloom", "bloom-cache", "simple", "global-bloom", "global-simple", "inmemory", "state")
#: Seconds that must not be passed at the default sizes on two cores; others are reported only.
LIMITS = {
    ("hash", "ordered"): 1.5,
    ("hash", "random"): 1.5,
    ("bucket", "ordered"): 0.5,
    ("bucket", "random"): 0.5,
    ("bloom", "ordered"): 2.0,
    ("bloom", "random"): 8.0,
    ("simple", "ordered"): 4.0,
    ("simple", "random"): 4.0,
    ("state", "ordered"): 2.0,
    ("state", "random"): 2.0,
    ("state build", "ordered"): 20.0,
    ("state build", "random"): 20.0,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: best round in seconds, CPU seconds of that round, and what was looked at.

    limit      seconds it may take
    peak_mib   building a state: how much the process grew while it did
    """

    case: str
    order: str
    keys: int
    rows: int
    seconds: float
    cpu_seconds: float
    limit: float | None
    figures: dict[str, int]
    peak_mib: int | None = None


def keys_of(order: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return keys of 18 bytes: a running time and number, or a mixed number."""
    return id_texts(numbers if order == "ordered" else (mixed(numbers) % np.uint64(10**15)).astype(np.int64))


def make_workload(order: str, rows: int, batch_keys: int, folder: Path) -> KeyedTable:
    """Write and commit the table, and draw the batch."""
    rng = np.random.default_rng(7)
    known = batch_keys * 9 // 10
    if order == "ordered":
        recent = rng.choice(
            np.arange(rows - rows // BUCKETS, rows), min(known * 9 // 10, rows // BUCKETS), replace=False
        )
        late = rng.choice(rows - rows // BUCKETS, known - len(recent), replace=False)
        numbers = np.concatenate([recent, late])
    else:
        numbers = rng.choice(rows, known, replace=False)
    return write_keyed_table(
        str(folder / "bench.db" / order),
        order,
        rows=rows,
        buckets=BUCKETS,
        batch=rng.permutation(np.concatenate([numbers, np.arange(rows, rows + batch_keys - known)])),
        keys_of=partial(keys_of, order),
        options={"dynamic-bucket.target-row-num": str(-(-rows // BUCKETS))},
    )


def time_tagging(work: KeyedTable, kind: str, rounds: int) -> list[Figure]:
    """Measure one type over one workload."""
    if kind == "bucket":
        return [_time_bucket(work, rounds)]
    options: dict[str, str] = {}
    name = kind
    if kind == "bloom-cache":
        name, options["hoodie.bloom.index.use.metadata"] = "bloom", "true"
    options["index.type"] = name
    key_index = make_key_index(IndexOptions(options))
    out = []
    if isinstance(key_index, StateKeyIndex):
        with _PeakMemory() as memory:
            figure = _time(work, f"{kind} build", lambda: key_index, options, 1, first=False)
        assert key_index.last_action is not None
        assert key_index.last_action.kind == "rebuilt"
        out.append(dataclasses.replace(figure, peak_mib=memory.mib))
    if kind == "bloom-cache":
        context = work.context(options)
        key_index.update_locations(None, context)  # type: ignore[arg-type]
    out.append(_time(work, kind, lambda: key_index, options, rounds))
    if isinstance(key_index, StateKeyIndex):
        key_index.close()
    return out


class _PeakMemory:
    """How much the process grows meanwhile, looked at every hundredth of a second."""

    def __init__(self) -> None:
        self._process, self._done = psutil.Process(), threading.Event()
        self._before = self._most = self._process.memory_info().rss
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._most = max(self._most, self._process.memory_info().rss)

    @property
    def mib(self) -> int:
        return int((self._most - self._before) >> 20)


def _time(
    work: KeyedTable,
    kind: str,
    key_index: Callable[[], KeyIndex],
    options: dict[str, str],
    rounds: int,
    *,
    first: bool = True,
) -> Figure:
    """Return the best of some rounds; `first` checks an answer before the first one is timed."""
    if first:
        work.check(key_index().tag(work.fresh_batch(), work.context(options)).bucket, kind)
    best, cpu, figures = float("inf"), 0.0, {}
    for _ in range(rounds):
        context, batch = work.context(options), work.fresh_batch()
        started, cpu_started = time.perf_counter(), time.process_time()
        found = key_index().tag(batch, context)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        work.check(found.bucket, kind)
        if seconds < best:
            best, cpu, figures = seconds, cpu_seconds, {k: v for k, v in found.metrics.as_dict().items() if v}
    limit = LIMITS.get((kind, work.name))
    return Figure(kind, work.name, len(work.batch), work.rows, best, cpu, limit, figures)


def _time_bucket(work: KeyedTable, rounds: int) -> Figure:
    """Measure computed buckets; a thousand of them are checked by the scalar rule before the first timed round and after each."""
    options = {"index.type": "bucket", "hoodie.bucket.index.num.buckets": "256"}
    key_index = make_key_index(IndexOptions(options))
    best, cpu = float("inf"), 0.0
    sample = np.random.default_rng(1).choice(len(work.batch), min(1000, len(work.batch)), replace=False)
    texts = work.batch.keys.column("id").take(pa.array(sample)).to_pylist()
    expected = np.array([bucket_of(text, [], 256) for text in texts])
    for number in range(rounds + 1):
        context, batch = work.context(options), work.fresh_batch()
        started, cpu_started = time.perf_counter(), time.process_time()
        placed = key_index.place_inserts(batch, context)
        key_index.tag(batch, context)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        if placed is None or not np.array_equal(placed[sample], expected):
            raise SystemExit("bucket: keys are not where the scalar rule puts them")
        if number and seconds < best:
            best, cpu = seconds, cpu_seconds
    return Figure("bucket", work.name, len(work.batch), work.rows, best, cpu, LIMITS[("bucket", work.name)], {})


def time_hbase(work: KeyedTable, port: int, keys: int) -> list[Figure]:
    """Measure loading and finding some keys in a real HBase; the server and Thrift decide."""
    options = {
        "index.type": "hbase",
        "hoodie.index.hbase.table": f"bench_{os.getpid()}_{work.name}",
        "index.hbase.thrift.host": "127.0.0.1",
        "index.hbase.thrift.port": str(port),
        "hoodie.index.hbase.get.batch.size": "2000",
        "hoodie.index.hbase.put.batch.size": "2000",
        "index.hbase.max-requests-per-second": "10000000",
    }
    create_location_table(IndexOptions(options))
    b = work.batch
    batch = KeyBatch(b.partitions, b.partition[:keys], b.keys.slice(0, keys), b.key_types, b.hashes[:keys])
    part = dataclasses.replace(work, batch=batch, bucket_of=work.bucket_of[:keys])
    key_index, context = HBaseKeyIndex(), part.context(options)
    known = np.flatnonzero(part.bucket_of >= 0)
    loaded = KeyBatch(b.partitions, b.partition[known], batch.keys.take(known), b.key_types, b.hashes[known])
    started = time.perf_counter()
    key_index.load(loaded, part.bucket_of[known], context)
    seconds = time.perf_counter() - started
    put = Figure("hbase load", work.name, len(known), work.rows, seconds, 0.0, None, {})
    return [put, _time(part, "hbase", lambda: key_index, options, 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--batch", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--hbase-port", type=int, default=9090)
    parser.add_argument("--hbase-batch", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dir", type=Path, help="where the tables are made; default a temporary directory")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-tagging-", dir=arguments.dir))
    figures: list[Figure] = []
    try:
        for order in arguments.orders.split(","):
            started = time.perf_counter()
            work = make_workload(order, arguments.rows, arguments.batch, folder)
            print(
                f"{order}: table of {arguments.rows:,} rows made in {time.perf_counter() - started:.1f} s",
                file=sys.stderr,
            )
            for kind in arguments.types.split(","):
                figures += time_tagging(work, kind, arguments.rounds)
                _show(figures[-2:] if "build" in figures[-2:][0].case else figures[-1:])
            if listens(arguments.hbase_port):
                figures += time_hbase(work, arguments.hbase_port, arguments.hbase_batch)
                _show(figures[-2:])
            else:
                print(f"hbase: nothing listens on port {arguments.hbase_port}, so it is not timed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        machine = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps([{**machine, **asdict(f)} for f in figures], indent=1) + "\n")
    late = [f for f in figures if f.limit is not None and f.seconds > f.limit]
    return 1 if late and arguments.rows >= 6_000_000 else 0


def listens(port: int) -> bool:
    """Return True when something listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _show(figures: list[Figure]) -> None:
    for f in figures:
        limit = "no limit" if f.limit is None else f"at most {f.limit:4.1f} s"
        late = "  LATE" if f.limit is not None and f.seconds > f.limit else ""
        peak = "" if f.peak_mib is None else f"  grew by {f.peak_mib:,} MiB"
        print(
            f"{f.case:14} {f.order:8} {f.keys:>9,} keys {f.seconds:7.3f} s  cpu {f.cpu_seconds:6.3f} s  {limit:14}{late}{peak}"
            f"  {f.figures}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
