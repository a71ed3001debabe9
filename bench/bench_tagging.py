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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.write_data_file import write_data_files
from lakeidx.format.data_file import EMPTY_ROW, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.key_index.hbase.client import create_location_table
from lakeidx.key_index.hbase.hbase_index import HBaseKeyIndex
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, KeyIndex
from lakeidx.key_index.registry import data_file_footer, make_key_index
from lakeidx.key_index.state.state_index import StateKeyIndex
from lakeidx.key_index.table_view import key_batch, make_tag_context
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.handle import TableHandle
from lakeidx.table.index_files import write_hash_index
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


@dataclass(frozen=True, slots=True)
class Workload:
    """A table and a batch.

    bucket_of   int32[n] where each key of the batch is, -1 = nowhere
    held        of each bucket the hashes of its keys, int32[m] ascending, each once
    """

    order: str
    rows: int
    handle: TableHandle
    batch: KeyBatch
    bucket_of: npt.NDArray[np.int32]
    held: tuple[npt.NDArray[np.int32], ...]
    folder: Path

    def context(self, options: dict[str, str]) -> IndexContext:
        """Return a fresh view of the table: nothing cached from an earlier round."""
        handle = TableHandle.open(str(self.handle.paths.root))
        metadata = handle.metadata
        found = make_tag_context(metadata, metadata.latest_snapshot(), index_dir=str(self.folder / "index"))
        schema = metadata.latest_schema()
        return dataclasses.replace(found, options=IndexOptions({**schema.options, **options}))


def key_texts(order: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return keys of 18 bytes: a running time and number, or a mixed number."""
    if order == "ordered":
        values = numbers
    else:
        mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        values = (mixed * np.uint64(0xBF58476D1CE4E5B9) % np.uint64(10**15)).astype(np.int64)
    digits = (values[:, None] // 10 ** np.arange(14, -1, -1, dtype=np.int64)) % 10 + ord("0")
    body = np.empty((len(numbers), 18), np.uint8)
    body[:, :3] = np.frombuffer(b"id-", np.uint8)
    body[:, 3:] = digits
    return RowBytes(body.reshape(-1), np.arange(len(numbers) + 1, dtype=np.int64) * 18).to_arrow().cast(pa.string())


def make_workload(order: str, rows: int, batch_keys: int, folder: Path) -> Workload:
    """Write and commit the table, and draw the batch."""
    spec = {
        "fields": [{"name": "id", "type": "STRING NOT NULL"}, {"name": "v", "type": "INT"}],
        "primaryKeys": ["id"],
        "partitionKeys": [],
        "options": {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": str(-(-rows // BUCKETS)),
            "target-file-size": "1 gb",
            "file.block-size": "8 mb",
            "index.type": "bloom",
            "hoodie.index.bloom.num_entries": str(-(-rows // BUCKETS)),
            "hoodie.index.bloom.fpp": "0.000001",
            "hoodie.bloom.index.filter.dynamic.max.entries": str(-(-rows // BUCKETS)),
        },
    }
    handle = TableHandle.create(str(folder / "bench.db" / order), spec)
    schema = handle.metadata.latest_schema()
    names = NewFileNames()
    entries, index, held = [], [], []
    for bucket in range(BUCKETS):
        numbers = np.arange(rows * bucket // BUCKETS, rows * (bucket + 1) // BUCKETS, dtype=np.int64)
        keys = key_texts(order, numbers)
        keys = keys.take(keys.sort_indices()) if hasattr(keys, "sort_indices") else keys
        table = pa.table({"id": keys}).sort_by("id")
        n = table.num_rows
        kv = pa.table(
            {
                "_SEQUENCE_NUMBER": np.arange(n, dtype=np.int64),
                "_VALUE_KIND": np.zeros(n, np.int8),
                "id": table.column("id"),
                "v": pa.array(np.arange(n, dtype=np.int32)),
            }
        )
        files = write_data_files(
            iter([kv]),
            schema,
            store=handle.store,
            bucket_dir=handle.paths.bucket_dir({}, bucket),
            names=names,
            level=5,
            file_source=FileSource.COMPACT,
            footer_metadata=data_file_footer(schema),
        )
        entries += [
            ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=bucket, total_buckets=-1, file=f)
            for f in files
        ]
        hashes = np.unique(hash_columns([table.column("id")], [schema.field("id").type]))
        held.append(hashes)
        index.append(write_hash_index(handle.metadata, schema, EMPTY_ROW, bucket, hashes, names))
    changes = TableChanges(append=tuple(entries), append_index=tuple(index))
    commit_changes(handle.metadata, CommitRequest(commit_user="bench", commit_identifier=1, changes=changes))
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
    numbers = rng.permutation(np.concatenate([numbers, np.arange(rows, rows + batch_keys - known)]))
    table = pa.table({"id": key_texts(order, numbers)})
    batch = key_batch(table, schema, ((EMPTY_ROW,), np.zeros(len(numbers), np.int32)))
    edges = np.array([rows * b // BUCKETS for b in range(1, BUCKETS + 1)])
    bucket_of = np.where(numbers < rows, np.searchsorted(edges, numbers, side="right"), -1).astype(np.int32)
    return Workload(order, rows, handle, batch, bucket_of, tuple(held), folder / order)


def check(found: KeyLocations, work: Workload, kind: str) -> None:
    """Check that every location is the true one, or that of a look-alike where the type cannot tell."""
    if wrong := count_wrong(found.bucket, work.bucket_of, work.batch.hashes, work.held, kind):
        raise SystemExit(f"{kind} on {work.order} keys: {wrong} of {len(work.batch)} locations are wrong")


def count_wrong(
    found: npt.NDArray[np.int32],
    bucket_of: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.int32],
    held: Sequence[npt.NDArray[np.int32]],
    kind: str,
) -> int:
    """Count locations that are wrong.

    A key without a place may be in the bucket of a key of the table that has its hash: types by hash, and the key state, do not
    look further. Of known keys only type `hash` takes one for another, which here are in two buckets, as Java never has them.

    found, bucket_of   int32[n] said and true buckets, -1 = nowhere
    hashes             int32[n] of the keys
    held               of each bucket the hashes of its keys, ascending
    kind               index type
    """
    rows = np.flatnonzero(found != bucket_of)
    if kind == "hash":
        may = np.ones(len(rows), np.bool_)
    else:
        may = (bucket_of[rows] < 0) & kind.startswith(("state", "inmemory"))
    alike = np.zeros(len(rows), np.bool_)
    for bucket, there in enumerate(held):
        mine = np.flatnonzero(found[rows] == bucket)
        alike[mine] = np.isin(hashes[rows[mine]], there)
    return int((~(may & alike)).sum())


def fresh_batch(work: Workload) -> KeyBatch:
    """Return the batch without anything that an earlier round has worked out."""
    b = work.batch
    return KeyBatch(b.partitions, b.partition, b.keys, b.key_types, b.hashes)


def time_tagging(work: Workload, kind: str, rounds: int) -> list[Figure]:
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
    work: Workload,
    kind: str,
    key_index: Callable[[], KeyIndex],
    options: dict[str, str],
    rounds: int,
    *,
    first: bool = True,
) -> Figure:
    """Return the best of some rounds; `first` checks an answer before the first one is timed."""
    if first:
        check(key_index().tag(fresh_batch(work), work.context(options)), work, kind)
    best, cpu, figures = float("inf"), 0.0, {}
    for _ in range(rounds):
        context, batch = work.context(options), fresh_batch(work)
        started, cpu_started = time.perf_counter(), time.process_time()
        found = key_index().tag(batch, context)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        check(found, work, kind)
        if seconds < best:
            best, cpu, figures = seconds, cpu_seconds, {k: v for k, v in found.metrics.as_dict().items() if v}
    limit = LIMITS.get((kind, work.order))
    return Figure(kind, work.order, len(work.batch), work.rows, best, cpu, limit, figures)


def _time_bucket(work: Workload, rounds: int) -> Figure:
    """Measure computed buckets; a thousand of them are checked by the scalar rule before the first timed round and after each."""
    options = {"index.type": "bucket", "hoodie.bucket.index.num.buckets": "256"}
    key_index = make_key_index(IndexOptions(options))
    best, cpu = float("inf"), 0.0
    sample = np.random.default_rng(1).choice(len(work.batch), min(1000, len(work.batch)), replace=False)
    texts = work.batch.keys.column("id").take(pa.array(sample)).to_pylist()
    expected = np.array([bucket_of(text, [], 256) for text in texts])
    for number in range(rounds + 1):
        context, batch = work.context(options), fresh_batch(work)
        started, cpu_started = time.perf_counter(), time.process_time()
        placed = key_index.place_inserts(batch, context)
        key_index.tag(batch, context)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        if placed is None or not np.array_equal(placed[sample], expected):
            raise SystemExit("bucket: keys are not where the scalar rule puts them")
        if number and seconds < best:
            best, cpu = seconds, cpu_seconds
    return Figure("bucket", work.order, len(work.batch), work.rows, best, cpu, LIMITS[("bucket", work.order)], {})


def time_hbase(work: Workload, port: int, keys: int) -> list[Figure]:
    """Measure loading and finding some keys in a real HBase; the server and Thrift decide."""
    options = {
        "index.type": "hbase",
        "hoodie.index.hbase.table": f"bench_{os.getpid()}_{work.order}",
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
    put = Figure("hbase load", work.order, len(known), work.rows, seconds, 0.0, None, {})
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
