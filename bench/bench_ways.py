"""What each size brings that chooses between two ways of one step: the way that is taken, and the other one for the same.

Each step runs twice, with the size as it is and with one at which the other way is taken; both answers are compared. The object
store is the S3 server of the tests behind 20 ms for each request and a bandwidth for each connection, as real stores have them;
Spark is a session of this machine.

    python -m bench ways [-- [--delay-ms 20] [--megabytes 80] [--rounds 3] [--json]]
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench_s3 import delayed
from bench.clock import best_of
from bench.figures import tell
from lakeidx import Table
from lakeidx.codec.gather import gather_rows
from lakeidx.landing.types import LandingOptions
from lakeidx.storage import open_store
from tests.kit.s3_server import S3Server, run_s3_server

_NEVER, _ROWS = 1 << 60, 131_072
_FIELDS = [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]


@dataclass(frozen=True, slots=True)
class Figure:
    """A size and what was done; seconds of the way that is taken and of the other one, how many times as long that takes."""

    size: str
    case: str
    seconds: float
    cpu_seconds: float
    other_seconds: float
    other_cpu_seconds: float
    times: float


def compared(size: str, other: int, case: str, rounds: int, work: Callable[[], Any]) -> Figure:
    """Measure both ways; `size` is the constant's module and name, `other` the value that takes the other way."""
    found = work()
    seconds, cpu = best_of(rounds, work)
    with mock.patch(f"lakeidx.{size}", other):
        if work() != found:
            raise AssertionError(f"{case}: the two ways differ")
        others, other_cpu = best_of(rounds, work)
    return Figure(size, case, seconds, cpu, others, other_cpu, round(others / seconds, 1))


def in_memory(rounds: int) -> Iterator[Figure]:
    """Gather rows that lie together but for 100."""
    old, new = (pa.table({"v": pa.array([f"{n:0100}" for n in range(count)])}) for count in (_ROWS, 100))
    rows = np.concatenate([np.arange(_ROWS // 2), np.arange(_ROWS, _ROWS + 100), np.arange(_ROWS // 2 + 100, _ROWS)])
    case = f"{_ROWS:,} rows, 100 of them new"
    yield compared("codec.gather._ROWS_PER_SLICE", _NEVER, case, rounds, lambda: gather_rows([old, new], rows))


def on_a_store(server: S3Server, options: dict[str, Any], rounds: int) -> Iterator[Figure]:
    """Read a small and a large object, and upsert few rows."""
    base = server.fresh_uri("ways")
    store = open_store(base, options)
    made = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": np.random.default_rng(0).integers(0, 1 << 60, 25_000)}), made)
    small = made.getvalue().to_pybytes()
    store.put(f"{base}/small", small)
    store.put(f"{base}/large", bytes(64 << 20))

    def read_small() -> pa.Table:
        with store.open_input(f"{base}/small", size=len(small)) as file:
            return pq.read_table(file)

    case = f"a Parquet file of {len(small):,} bytes"
    yield compared("storage.range_file.WHOLE_FILE_BYTES", 0, case, rounds, read_small)
    case = "get an object of 64 MiB"
    yield compared("storage.remote.store._LARGE_BYTES", _NEVER, case, rounds, lambda: store.get(f"{base}/large"))
    table = Table.create(
        f"{base}/d.db/t", {"fields": _FIELDS, "primaryKeys": ["k"], "options": {"bucket": "64"}}, options
    )
    few = pa.table({"k": [1, 2], "v": ["a", "b"]})
    case = "upsert of two rows"
    yield compared("batch.stages.memory_staging._MOST_BYTES", -1, case, rounds, lambda: table.upsert(few).rows)


def of_a_feed(folder: Path, rounds: int) -> Iterator[Figure]:
    """Read messages one of which has a value that its column cannot hold."""
    lines = [json.dumps({"op": "c", "after": {"k": n, "v": "a"}}) for n in range(50_000)]
    lines[25_000] = lines[25_000].replace("25000", '"many"')
    file = folder / "feed.json"
    file.write_text("\n".join(lines))
    table = Table.create(f"{folder}/d.db/feed", {"fields": _FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    case = f"{len(lines):,} messages, one of them wrong"

    def load() -> int:
        return table.upsert_files([str(file)], LandingOptions("debezium"), max_rejected=1).rejected

    yield compared("landing.cdc.reader._FEW_LINES", _NEVER, case, rounds, load)


def in_spark(rounds: int) -> Iterator[Figure]:
    """Send 18 MB of items to tasks."""
    from lakeidx.spark.runner import SparkRunner, get_session

    session = get_session(master="local[2]")
    items = [pickle.dumps(np.arange(n, n + 7_500)) for n in range(300)]
    runner = SparkRunner(session)
    case = "300 items of 60 kB"
    yield compared(
        "spark.runner._CLOSURE_BYTES", _NEVER, case, rounds, lambda: sum(runner.map(len, items, label="ways"))
    )
    session.stop()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=20.0)
    parser.add_argument(
        "--megabytes", type=float, default=80.0, help="that a connection to the store moves in a second"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder,
        run_s3_server() as server,
        delayed(server, args.delay_ms / 1000, args.megabytes * 1e6) as (options, _),
    ):
        figures = chain(
            in_memory(args.rounds),
            on_a_store(server, options, args.rounds),
            of_a_feed(Path(folder), args.rounds),
            in_spark(args.rounds),
        )
        tell("Two ways of one step", figures, as_json=args.json)


if __name__ == "__main__":
    main()
