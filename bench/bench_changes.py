"""What changes cost: a changelog producer beside none, and reading the changes of a small batch of a large table.

lineitem of TPC-H, loaded and compacted once. Each producer then takes an upsert of a tenth of the rows (nine of ten known) and
compacts: of `none`, `lookup` and deletion vectors level 0 only, of `full-compaction` everything. Every result is checked by
NumPy's own count and sum over the input files before its time counts, the changelog by the rows that came and went.

Afterwards an upsert of a hundredth of the rows is read: as the rows that were written, as a changelog derived after the fact,
and as the difference of two states.

    python bench/bench_changes.py [--lineitem FILE] [--rows N] [--rounds 3] [--threads 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Printed

import lakeidx
from bench.bench_compaction import NEW_KEYS_FROM, SUMMED, check, cpu_seconds, expected
from bench.lineitem import CACHE, lineitem, plain, table_spec
from lakeidx.batch.upsert import make_context, upsert_files
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.warm_up import warm_up
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner

PRODUCERS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "full-compaction": {"changelog-producer": "full-compaction"},
}
#: Seconds that issue 15 allows on two cores for 600 k of 6 M rows and 60 k of 6 M rows.
LIMITS = {
    "upsert and compact, lookup, deletion vectors": 4.0,
    "changelog after the fact": 2.0,
    "difference of two states": 1.5,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """Best wall seconds of the rounds, and that round's processor seconds."""

    case: str
    rows: int
    seconds: float
    cpu_seconds: float
    load_average: float
    limit: float | None = None
    note: str = ""


def best(case: str, rows: int, rounds: int, step: Callable[[], str]) -> Figure:
    """Time a step some times; it returns a note."""
    found: Figure | None = None
    for _ in range(rounds):
        cpu, started = cpu_seconds(), time.perf_counter()
        note = step()
        seconds, used = time.perf_counter() - started, cpu_seconds() - cpu
        figure = Figure(
            case, rows, round(seconds, 2), round(used, 2), round(os.getloadavg()[0], 1), LIMITS.get(case), note
        )
        found = figure if found is None or figure.seconds < found.seconds else found
    assert found is not None
    return found


def batch(rows: pa.Table, count: int, seed: int, path: Path) -> Path:
    """Nine known keys of ten, the rest new; a value that tells batches apart; in random order."""
    random = np.random.default_rng(seed)
    known = rows.take(pa.array(random.choice(rows.num_rows, count * 9 // 10, replace=False)))
    new = rows.slice(seed * count, count - known.num_rows)
    new = new.set_column(0, new.schema.field(0), pc.add(new.column(0), NEW_KEYS_FROM * seed))
    both = pa.concat_tables([known, new])
    both = both.set_column(1, both.schema.field(1), pc.add(both.column(1), seed * 1_000_000))
    pq.write_table(both.take(pa.array(random.permutation(both.num_rows))), path)
    return path


def loaded(source: Path, folder: Path, options: Mapping[str, str], threads: int) -> TableHandle:
    """The table with all of its rows in one sorted run a bucket."""
    spec = table_spec(pq.read_schema(source))
    spec["options"] |= options
    table = TableHandle.create(f"{folder}/wh/b.db/lineitem", spec)
    upsert_files(make_context(table.metadata, "load", runner=LocalRunner(threads)), [str(source)])
    run_compaction(table.metadata, LocalRunner(threads), full=True)
    return table


def changelog_rows(uri: str) -> int:
    """Changelog records of the newest snapshot."""
    return TableHandle.open(uri).snapshot.changelog_record_count or 0  # type: ignore[union-attr]


def producers(source: Path, upsert: Path, folder: Path, args: argparse.Namespace) -> list[Figure]:
    """Upsert and compaction with each producer."""
    want = expected([source, upsert])
    count = pq.read_metadata(upsert).num_rows
    out = []
    for name, options in PRODUCERS.items():
        if args.only and args.only not in name:
            continue
        base = loaded(source, folder / name.replace(" ", "-"), options, args.threads)
        copies = [_copy(base.uri, folder / f"{name}-{i}") for i in range(args.rounds)]
        waiting = iter(copies)

        def step(waiting: object = waiting, name: str = name) -> str:
            table = TableHandle.open(next(waiting))  # type: ignore[call-overload]
            runner = LocalRunner(args.threads)
            started = time.perf_counter()
            upsert_files(make_context(table.metadata, "b1", runner=runner), [str(upsert)])
            written = time.perf_counter() - started
            if name != "none" and name != "input":
                run_compaction(table.metadata, runner, full=name == "full-compaction")
            return f"upsert {written:.2f}, compaction {time.perf_counter() - started - written:.2f}"

        out.append(best(f"upsert and compact, {name}", count, args.rounds, step))
        for uri in copies:
            check(TableHandle.open(uri), want)
            if name == "input" and changelog_rows(uri) != count:
                sys.exit(f"{changelog_rows(uri)} changelog rows of {count}")
            # Nine of ten rows replace one (-U, +U), one is new (+I).
            made = count * 9 // 10 * 2 + count - count * 9 // 10
            if name in ("lookup", "lookup, deletion vectors", "full-compaction") and changelog_rows(uri) != made:
                sys.exit(f"{name}: {changelog_rows(uri)} changelog rows, expected {made}")
        shutil.rmtree(folder / name.replace(" ", "-"))
        for i in range(args.rounds):
            shutil.rmtree(folder / f"{name}-{i}")
    return out


def reads(source: Path, small: Path, folder: Path, args: argparse.Namespace) -> list[Figure]:
    """Reading the changes of a small batch."""
    table = lakeidx.Table.open(loaded(source, folder / "reads", {}, args.threads).uri)
    before = table.metadata.latest_snapshot_id() or 0
    upsert_files(make_context(table.metadata, "b1", runner=LocalRunner(args.threads)), [str(small)])
    count = pq.read_metadata(small).num_rows
    known = count * 9 // 10
    news = int(pc.sum(pq.read_table(small, columns=[SUMMED]).column(0)).as_py())

    def step(mode: str, rows: int) -> Callable[[], str]:
        def read() -> str:
            found = table.changes(before, before + 1, mode=mode).to_arrow()
            kinds = found.column("_rowkind")
            after = found.filter(pc.is_in(kinds, pa.array(["+I", "+U"])))
            if found.num_rows != rows or int(pc.sum(after.column(SUMMED)).as_py()) != news:
                sys.exit(f"{mode}: {found.num_rows} rows, expected {rows}, or another sum than the batch")
            return ""

        return read

    return [
        best("rows of a batch", count, args.rounds, step("delta", count)),
        best("changelog after the fact", count, args.rounds, step("derived", count + known)),
        best("difference of two states", count, args.rounds, step("diff", count + known)),
    ]


def _copy(uri: str, folder: Path) -> str:
    place = folder / "b.db" / "lineitem"
    shutil.copytree(uri, place)
    return str(place)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--lineitem", type=Path, help="lineitem.parquet of TPC-H scale 1")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--rows", type=int, help="take only the first rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="producers whose name has this in it; then changes are not read")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    warm_up(only=("codecs",))
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as temporary:
        folder = Path(temporary)
        rows = plain(pq.read_table(args.lineitem or lineitem(1, args.cache)))
        rows = rows if args.rows is None else rows.slice(0, args.rows)
        source = folder / "lineitem.parquet"
        pq.write_table(rows, source)
        upsert = batch(rows, rows.num_rows // 10, 1, folder / "tenth.parquet")
        small = batch(rows, rows.num_rows // 100, 2, folder / "hundredth.parquet")
        del rows
        figures = producers(source, upsert, folder, args)
        if not args.only:
            figures += reads(source, small, folder, args)
    if args.json:
        print("\n".join(json.dumps(asdict(f)) for f in figures))
        return 0
    table = Printed(title=f"Changes, {args.threads} threads")
    for name in ("case", "rows", "wall s", "cpu s", "load", "limit s", "note"):
        table.add_column(name, justify="left" if name in ("case", "note") else "right")
    for f in figures:
        values = (f"{f.rows:,}", str(f.seconds), str(f.cpu_seconds), str(f.load_average), str(f.limit or ""), f.note)
        table.add_row(f.case, *values)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
