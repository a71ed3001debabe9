"""60 million rows of lineitem loaded, and 600,000 spread over all of them upserted: lakeidx, delta-rs and Lance, the same files.

lakeidx is measured by `bench_upsert` (Spark, a driver of 1 GB), the others by what `bench_peers` runs, each in a process of its
own that has done both steps on a small table. They stream the file batch by batch. An upsert is the best of three, unless it takes
longer than ten seconds. A result is checked before its time counts:
of lakeidx rows, a sum and distinct keys, of the others rows, a sum, and a sum over key and value together. A step that takes
longer than --limit, or more memory than --memory, is shown as such.

    python -m bench.bench_large [--rows 60000000] [--share 100] [--peers NAME,NAME] [--limit 300] [--memory 16] [--json]

60 million rows take some twenty gigabytes of disk below --folder: less than that, and nothing is begun.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench_peers import WARM_ROWS
from bench.bench_upsert import make_input
from bench.figures import tell
from bench.lineitem import CACHE, lineitem, streamed
from bench.peers.base import KEYS, SUMMED, Answer, key_numbers, state_of
from bench.peers.data import READ_ROUNDS, Data, make_data
from bench.peers.environments import ROOT, peers
from bench.peers.measure import run_peer

PEERS = ("lakeidx", "delta-rs", "Lance")
PHASES = (("load", "load", "load"), ("upsert", "upsert", "upsert"))
#: Bytes of disk for each row: a table, its copy by the upsert, and what Spark shuffles.
DISK_PER_ROW = 340
#: The rows of this scale are 60 million, of scale 1 six million.
SCALE, SMALL_SCALE_ROWS = 10, 6_000_000

Figure = dict[str, Any]


@dataclass(slots=True)
class Held(Data):
    """The files, and what a table holds after the load and after the upsert, counted batch by batch."""

    answers: tuple[Answer, ...] = ()

    def held(self, written: tuple[str, ...]) -> Answer:
        """Return the answer about the whole table."""
        return self.answers[len(written) - 1]


def make_held(base: Path, upsert: Path) -> Held:
    """Count what a table holds. The base must be in key order, which shows that no key comes twice."""
    columns = [*KEYS, SUMMED]
    changed = pq.read_table(upsert, columns=columns)
    replaced = np.unique(key_numbers(changed))
    if len(replaced) != changed.num_rows:
        sys.exit(f"{upsert.name} has a key twice")

    def ordered() -> Iterator[pa.RecordBatch]:
        last = -1
        for batch in streamed(base, columns=columns):
            keys = key_numbers(batch)
            if len(keys) and not (keys[0] > last and bool((np.diff(keys) > 0).all())):
                sys.exit(f"{base.name} is not in key order")
            last = keys[-1] if len(keys) else last
            yield batch

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in streamed(base, columns=columns):
            keys = key_numbers(batch)
            at = np.minimum(np.searchsorted(replaced, keys), len(replaced) - 1)
            yield batch.filter(pa.array(replaced[at] != keys))

    loaded = state_of(ordered())
    answers = loaded, state_of(chain(kept(), [changed]))
    return Held({"load": base, "upsert": upsert}, loaded.rows, answers=answers)


def lakeidx(base: Path, rows: int, share: int, limit: float, folder: Path) -> list[Figure]:
    """Run `bench_upsert` on the base; return its two figures, or why there are none."""
    command = [sys.executable, "-m", "bench.bench_upsert", "--lineitem", str(base), "--sizes", str(rows)]
    command += ["--share", str(share), "--driver-memory", "1g", "--loads", "1", "--rounds", str(READ_ROUNDS), "--json"]
    # What it leaves when it is ended is in our folder.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    try:
        # Its checks, and the small batches before, take their time, too.
        out, errors = process.communicate(timeout=4 * limit)
    except subprocess.TimeoutExpired:
        return without_time("lakeidx", rows, share, "over the limit", f"not done after {4 * limit:.0f} s")
    finally:
        _end(process)
    if process.returncode:
        last = (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return without_time(
            "lakeidx", rows, share, "wrong" if last.startswith("wrong result") else "failed", last[:200]
        )
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [lakeidx_figure(figure, limit) for figure in found]


def lakeidx_figure(found: Figure, limit: float) -> Figure:
    """Return a figure of `bench_upsert` as one of this benchmark."""
    figure = {**found, "case": f"lakeidx, {found['case']}", "status": "ok", "why": None}
    if found["seconds"] > limit:
        figure |= {"status": "over the limit", "why": f"over the limit (not done after {limit:.0f} s)"}
        figure |= {"seconds": None, "cpu_seconds": None}
    return figure


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all below it."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        below = []
    process.kill()
    for child in below:
        try:
            child.kill()
        except psutil.Error:
            continue
    process.wait(30)


def cases(rows: int, share: int) -> list[str]:
    """Return the names of the two steps, as `bench_upsert` says them."""
    return [f"load {rows:,}", f"upsert {rows // share:,} into {rows:,}"]


def without_time(name: str, rows: int, share: int, status: str, why: str) -> list[Figure]:
    """Return figures that say why there are none."""
    return [
        {"case": f"{name}, {case}", "rows": None, "seconds": None, "cpu_seconds": None, "peak_mib": None,
         "status": status, "why": f"{status} ({why})"}
        for case in cases(rows, share)
    ]  # fmt: skip


def peer_figures(
    name: str, data: Held, warm: Data, args: argparse.Namespace, folder: Path, most_mib: float
) -> list[Figure]:
    """Load and upsert in one peer."""
    (kind,) = [k for k in peers() if k.name == name]
    found = run_peer(kind, data, warm, folder, args.cache.absolute(), args.limit, PHASES, most_mib, ("upsert",))
    written = (data.rows, pq.ParquetFile(data.files["upsert"]).metadata.num_rows)
    return [
        {"case": f"{name}, {case}", "rows": rows, "seconds": f.seconds, "cpu_seconds": f.cpu_seconds, "peak_mib": f.peak_mib,
         "status": f.status, "why": None if f.status == "ok" else f"{f.status} ({f.why})"}
        for case, rows, f in zip(cases(args.rows, args.share), written, found, strict=True)
    ]  # fmt: skip


def need_disk(folder: Path, rows: int) -> None:
    """Stop when a folder has less space than so many rows take."""
    free, needed = shutil.disk_usage(folder).free, rows * DISK_PER_ROW
    if free < needed:
        sys.exit(
            f"{rows:,} rows take {needed / 1e9:.1f} GB below {folder}, which has {free / 1e9:.1f} GB left:"
            " name another --folder, or fewer --rows"
        )


def measure(args: argparse.Namespace, folder: Path) -> list[Figure]:
    """Measure the named ones, one after another: the disk holds one table at a time."""
    source = args.lineitem or lineitem(SCALE if args.rows > SMALL_SCALE_ROWS else 1, CACHE)
    print("files ...", file=sys.stderr)
    base, upsert = make_input(source, args.rows, folder, args.share)
    figures: list[Figure] = []
    if "lakeidx" in args.peers:
        print("lakeidx ...", file=sys.stderr)
        figures += lakeidx(base, args.rows, args.share, args.limit, folder)
    others = [name for name in args.peers if name != "lakeidx"]
    if others:
        data, warm = make_held(base, upsert), make_data(base, WARM_ROWS, folder / "warm")
        for name in others:
            print(f"{name} ...", file=sys.stderr)
            figures += peer_figures(name, data, warm, args, folder / "peers", args.memory * 1024)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 when a result was wrong, or lakeidx has none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000_000)
    parser.add_argument("--share", type=int, default=100, help="one upserted row for so many of the table")
    parser.add_argument("--peers", type=lambda t: t.split(","), default=list(PEERS), help=", ".join(PEERS))
    parser.add_argument("--limit", type=float, default=300, help="seconds that a load or an upsert may take")
    parser.add_argument("--memory", type=float, default=16, help="GiB that the processes of a peer may take")
    parser.add_argument("--lineitem", type=Path, help="in key order; made once otherwise")
    parser.add_argument("--cache", type=Path, default=ROOT / ".work/peers", help="environments of the peers")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the tables are made")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    unknown = [n for n in args.peers if n not in PEERS]
    if unknown:
        parser.error(f"unknown peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    need_disk(args.folder, args.rows)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-", dir=args.folder) as folder:
        figures = measure(args, Path(folder))
    tell("A large table", figures, as_json=args.json)
    wrong = [f["case"] for f in figures if f["status"] == "wrong" or (f["seconds"] is None and "lakeidx" in f["case"])]
    if wrong:
        print(f"no right result: {'; '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
