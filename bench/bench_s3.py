"""Tables on an object store: the S3 server of the tests, bare and behind 20 ms more for each request.

A load, scans, an upsert and a full compaction of lineitem are measured on the store and on a local disk, alternating; the rest
behind the delay, as real stores are. Requests are counted where they pass. Results are checked before they count. With s3fs
installed, its requests stand beside those of the store. The server has the same processors as its client: what both must compute,
if nobody waited and the client cost nothing, is the least that a comparison with the local disk can come to (`floor_times_local`).

    python -m bench s3 [-- [--scale 1] [--delay-ms 20] [--rounds 2] [--json]]
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.clock import best_of
from bench.figures import tell
from bench.lineitem import CACHE, lineitem, plain_schema, table_spec
from lakeidx import Table
from lakeidx.storage import open_store
from tests.kit.s3_server import S3Server, run_s3_server

BUCKETS, OBJECTS, READERS = 800, 800, 30
LOOKED_UP = 1000
_LOOKUP = """
import sys, time, json, pyarrow as pa
from lakeidx import Table
uri, options, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
begun = time.perf_counter()
found = Table.open(uri, options).lookup(pa.table({"k": range(0, 397 * count, 397)}))
assert found["v"].null_count == 0 and found.num_rows == count
print(time.perf_counter() - begun)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One case.

    seconds, cpu_seconds   best round
    times_local            seconds for each that the same takes on a local disk
    requests               that passed
    cpu_times_local        the same of processor seconds of this process: on a busy machine the one to look at
    server_cpu_seconds     of the store's server, for each round
    floor_times_local      processor seconds of the local run and of the server, over all cores, for each second of the local run
    """

    case: str
    seconds: float
    cpu_seconds: float
    load_average: float
    times_local: float | None = None
    requests: int | None = None
    cpu_times_local: float | None = None
    server_cpu_seconds: float | None = None
    floor_times_local: float | None = None


def server_cpu(server: S3Server) -> float:
    """Return the processor seconds of a server so far."""
    used = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def relay(server: tuple[str, int], delay: float, rate: float, port: Any, requests: Any) -> None:
    """Hand connections on to a server, each answer so much later, so many bytes a second; for a process of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port.value = listener.getsockname()[1]
    while True:
        client = listener.accept()[0]
        threading.Thread(target=_hand_on, args=(client, server, delay, rate, requests), daemon=True).start()


def _hand_on(client: socket.socket, server: tuple[str, int], delay: float, rate: float, requests: Any) -> None:
    upstream = socket.create_connection(server)
    asked = threading.Event()
    for each in (client, upstream):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def forward() -> None:
        while data := client.recv(1 << 16):
            count = data.count(b" HTTP/1.1\r\n")
            if count:
                asked.set()
                with requests.get_lock():
                    requests.value += count
            upstream.sendall(data)
        upstream.close()

    threading.Thread(target=forward, daemon=True).start()
    try:
        while data := upstream.recv(1 << 18):
            if asked.is_set():
                asked.clear()
                time.sleep(delay)
            time.sleep(len(data) / rate)
            client.sendall(data)
    except OSError:
        return


@contextmanager
def delayed(server: S3Server, delay: float, rate: float = math.inf) -> Iterator[tuple[dict[str, Any], Any]]:
    """Give the storage options of a server behind a delay and a bandwidth for each connection, and the count of requests."""
    where = urlsplit(server.endpoint_url)
    context = multiprocessing.get_context("spawn")
    port, requests = context.Value("i", 0), context.Value("i", 0)
    target = (str(where.hostname), where.port)
    process = context.Process(target=relay, args=(target, delay, rate, port, requests), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.01)
    try:
        yield {**server.storage_options, "endpoint_url": f"http://127.0.0.1:{port.value}"}, requests
    finally:
        process.terminate()
        process.join()


def figure(case: str, rounds: int, work: Callable[[], object], requests: Any = None) -> Figure:
    """Measure something on the store."""
    before = 0 if requests is None else requests.value
    seconds, cpu = best_of(rounds, work)
    asked = None if requests is None else (requests.value - before) // rounds
    return Figure(case, round(seconds, 3), round(cpu, 3), round(os.getloadavg()[0], 1), None, asked)


def compared(case: str, rounds: int, server: S3Server, work: Callable[[bool], object]) -> Figure:
    """Measure something on the store (True) and on a local disk, by turns."""
    best: dict[bool, tuple[float, float]] = {}
    served = 0.0
    for remote in (True, False) * rounds:
        before = server_cpu(server)
        taken = best_of(1, partial(work, remote))
        served += server_cpu(server) - before if remote else 0
        best[remote] = min(best.get(remote, taken), taken)
    (seconds, cpu), (local, local_cpu) = best[True], best[False]
    floor = (local_cpu + served / rounds) / (os.cpu_count() or 1) / local
    return Figure(
        case, round(seconds, 3), round(cpu, 3), round(os.getloadavg()[0], 1), round(seconds / local, 2), None,
        round(cpu / local_cpu, 2), round(served / rounds, 3), round(max(1, floor), 2),
    )  # fmt: skip


def small_requests(server: S3Server, options: dict[str, Any], requests: Any, rounds: int) -> Iterator[Figure]:
    """Get many small objects by threads; also by s3fs, where it is installed."""
    base = server.fresh_uri("small")
    store = open_store(base, server.storage_options)
    store.put_many([(f"{base}/{n}", bytes(400)) for n in range(OBJECTS)])
    paths = [f"{base}/{n}" for n in range(OBJECTS)]
    slow = open_store(base, options)

    def get_all(of: Any) -> None:
        with ThreadPoolExecutor(READERS) as threads:
            assert sum(map(len, threads.map(of, paths))) == 400 * OBJECTS

    yield figure(f"get {OBJECTS} objects by {READERS} threads", rounds, lambda: get_all(store.get))
    yield figure(f"get {OBJECTS} objects, delayed", rounds, lambda: get_all(slow.get), requests)
    yield figure("100 gets, one after another", rounds, lambda: [store.get(path) for path in paths[:100]])
    try:
        import s3fs
    except ModuleNotFoundError:
        return
    fs = s3fs.S3FileSystem(key=server.key, secret=server.secret, endpoint_url=server.endpoint_url)
    yield figure(f"s3fs: get {OBJECTS} objects by {READERS} threads", rounds, lambda: get_all(fs.cat_file))


def small_table(server: S3Server, options: dict[str, Any], requests: Any, rounds: int) -> Iterator[Figure]:
    """Upsert into every bucket, look up, and keep up, behind the delay."""
    uri = f"{server.fresh_uri('wh')}/d.db/t"
    fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    spec = {
        "fields": fields,
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": str(BUCKETS // 100)},
    }
    Table.create(uri, spec, server.storage_options).upsert(rows_of(20_000, "old"))
    table = Table.open(uri, options)
    yield figure(f"upsert into {BUCKETS} buckets", rounds, lambda: table.upsert(rows_of(8_000, "new")), requests)
    found = table.scan().to_arrow()
    assert (found.num_rows, pc.sum(pc.equal(found["v"], "new")).as_py()) == (20_000, 8_000)
    for verb, call in (
        ("verify", table.verify),
        ("orphans", table.orphans),
        ("expire", table.expire),
    ):
        yield figure(verb, 1, call, requests)


def looked_up(server: S3Server, options: dict[str, Any], requests: Any) -> Iterator[Figure]:
    """Look keys up in a new process that has no local files, behind the delay."""
    uri = f"{server.fresh_uri('wh')}/d.db/t"
    fields = [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    table = Table.create(
        uri, {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "4"}}, server.storage_options
    )
    table.upsert(pa.table({"k": range(400_000), "v": [f"value {n}" for n in range(400_000)]}))
    table.build_lookup_store()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _LOOKUP, uri, json.dumps(options), str(LOOKED_UP)]
        before = requests.value
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "TMPDIR": folder}
        )
        seconds, asked = round(float(done.stdout), 3), requests.value - before
        case = f"lookup of {LOOKED_UP} keys, new process, no local files"
        yield Figure(case, seconds, 0, round(os.getloadavg()[0], 1), None, asked)


def rows_of(count: int, value: str) -> pa.Table:
    """Return rows with keys of all partitions in turn."""
    numbers = range(count)
    return pa.table({
        "p": pa.array([n % 100 for n in numbers], pa.int32()),
        "k": pa.array([n // 100 for n in numbers], pa.int64()),
        "v": [value] * count,
    })  # fmt: skip


def large_table(server: S3Server, source: Path, folder: Path, rounds: int) -> Iterator[Figure]:
    """Load, scan and compact lineitem on the store and on a local disk."""
    spec, rows = table_spec(pq.read_schema(source)), pq.read_metadata(source).num_rows
    made: dict[bool, Table] = {}

    file = pq.ParquetFile(source)
    # A quarter of the rows, of all buckets.
    part = pa.concat_tables(file.read_row_group(g) for g in range(0, file.num_row_groups, 4))
    part = part.cast(plain_schema(part.schema))

    def load(remote: bool) -> None:
        uri = server.fresh_uri("load") if remote else tempfile.mkdtemp(dir=folder)
        made[remote] = Table.create(f"{uri}/d.db/t", spec, server.storage_options if remote else None)
        made[remote].upsert_files([str(source)])

    def scan(remote: bool, columns: list[str] | None = None) -> None:
        assert sum(b.num_rows for b in made[remote].scan(columns=columns).batches()) == rows

    def upsert(remote: bool) -> None:
        made[remote].upsert(part)

    def compact(remote: bool) -> None:
        assert made[remote].compact(full=True).rows_in > rows

    # What is compiled at first is not timed.
    for step in (load, upsert, scan, compact):
        step(False)
    for case, step, times in (
        ("load", load, rounds),
        ("scan of one column", partial(scan, columns=["l_partkey"]), 2 * rounds),
        ("scan of all columns", scan, rounds),
        (f"upsert of {part.num_rows:,} rows", upsert, 1),
        ("full compaction after it", compact, 1),
    ):
        yield compared(f"{case}, {rows:,} rows", times, server, step)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of lineitem: 1 has 6 M rows; 0 leaves the large table out"
    )
    parser.add_argument("--delay-ms", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder,
        run_s3_server() as server,
        delayed(server, args.delay_ms / 1000) as (options, requests),
    ):
        figures = chain(
            small_requests(server, options, requests, args.rounds),
            small_table(server, options, requests, args.rounds),
            looked_up(server, options, requests),
            large_table(server, lineitem(args.scale, CACHE), Path(folder), args.rounds) if args.scale else (),
        )
        tell("An object store beside a local disk", figures, as_json=args.json)


if __name__ == "__main__":
    main()
