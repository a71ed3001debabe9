"""What changes cost: a changelog producer beside none, and reading the changes of a small batch of a large table.

lineitem of TPC-H, loaded and compacted once. Each producer then takes an upsert of a tenth of the rows (nine of ten known) and
compacts: of `none`, `lookup` and deletion vectors level 0 only, of `full-compaction` everything. Every result is checked by
NumPy's own count and sum over the input files before its time counts, the changelog by the rows that came and went.

Afterwards an upsert of a hundredth of the rows is read: as the rows that were written, as the changelog of a producer, as a
changelog derived after the fact, and as the difference of two states. Last, a reader follows commits of 1000 rows in a thread
of its own: the seconds from a commit to its rows being there.

The peer is the released Java Paimon in a JVM of its own, on the same files, with as many threads (tests/java/ChangesMicro.java): it
upserts the same rows, held in memory, and reads audit_log. Where there is no Java, its figures are shown as missing.

    python -m bench.bench_changes [--lineitem FILE] [--rows N] [--rounds 3] [--threads 2] [--no-java] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Printed

import lakeidx
from bench.bench_compaction import NEW_KEYS_FROM, SUMMED, check, cpu_seconds, expected
from bench.lineitem import CACHE, copy_table, lineitem, plain, table_spec
from lakeidx.batch.upsert import make_context, upsert_files
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.warm_up import warm_up
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner
from tests.java_tools import compiled, java_command, run_command, witness_classpath

PRODUCERS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "full-compaction": {"changelog-producer": "full-compaction"},
}
#: Commits that a reader follows, their rows, and how often it looks.
COMMITS, TAILED_ROWS, EVERY_S = 10, 1000, 0.05
#: Seconds that issue 15 allows on two cores for 600 k of 6 M rows and 60 k of 6 M rows.
LIMITS = {
    "upsert and compact, lookup, deletion vectors": 4.0,
    "changelog after the fact": 2.0,
    "difference of two states": 1.5,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """Best wall seconds of the rounds, and that round's processor seconds.

    java   seconds of the released Java Paimon; "missing" where it could not be asked; None where it does no such thing
    """

    case: str
    rows: int
    seconds: float
    cpu_seconds: float
    load_average: float
    limit: float | None = None
    note: str = ""
    java: float | str | None = None


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
    """Make a batch: nine known keys of ten, the rest new; a value that tells batches apart; in random order."""
    random = np.random.default_rng(seed)
    known = rows.take(pa.array(random.choice(rows.num_rows, count * 9 // 10, replace=False)))
    new = rows.slice(seed * count, count - known.num_rows)
    new = new.set_column(0, new.schema.field(0), pc.add(new.column(0), NEW_KEYS_FROM * seed))
    both = pa.concat_tables([known, new])
    both = both.set_column(1, both.schema.field(1), pc.add(both.column(1), seed * 1_000_000))
    pq.write_table(both.take(pa.array(random.permutation(both.num_rows))), path)
    return path


def loaded(source: Path, folder: Path, options: Mapping[str, str], threads: int) -> TableHandle:
    """Return the table with all of its rows in one sorted run a bucket."""
    spec = table_spec(pq.read_schema(source))
    spec["options"] |= options
    table = TableHandle.create(f"{folder}/wh/b.db/lineitem", spec)
    upsert_files(make_context(table.metadata, "load", runner=LocalRunner(threads)), [str(source)])
    run_compaction(table.metadata, LocalRunner(threads), full=True)
    return table


def changelog_rows(uri: str) -> int:
    """Return changelog records of the newest snapshot."""
    return TableHandle.open(uri).snapshot.changelog_record_count or 0  # type: ignore[union-attr]


def producers(source: Path, upsert: Path, folder: Path, args: argparse.Namespace, peer: Peer) -> list[Figure]:
    """Upsert and compaction with each producer."""
    want = expected([source, upsert])
    count = pq.read_metadata(upsert).num_rows
    out = []
    for name, options in PRODUCERS.items():
        if args.only and args.only not in name:
            continue
        base = loaded(source, folder / name.replace(" ", "-"), options, args.threads)
        copies = [copy_table(base.uri, folder / f"{name}-{i}") for i in range(args.rounds)]
        theirs = (
            [copy_table(base.uri, folder / f"{name}-java-{i}") for i in range(args.rounds + 1)] if peer.there else []
        )
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

        figure = best(f"upsert and compact, {name}", count, args.rounds, step)
        out.append(replace(figure, java=peer.write(upsert, theirs, name)))
        for uri in (*copies, *theirs):
            check(TableHandle.open(uri), want)
            if name == "input" and changelog_rows(uri) != count:
                sys.exit(f"{changelog_rows(uri)} changelog rows of {count}")
            # Nine of ten rows replace one (-U, +U), one is new (+I).
            made = count * 9 // 10 * 2 + count - count * 9 // 10
            if name in ("lookup", "lookup, deletion vectors", "full-compaction") and changelog_rows(uri) != made:
                sys.exit(f"{name}: {changelog_rows(uri)} changelog rows, expected {made}")
        shutil.rmtree(folder / name.replace(" ", "-"))
        for place in folder.glob(f"{name}-*"):
            shutil.rmtree(place)
    return out


def reads(source: Path, small: Path, folder: Path, args: argparse.Namespace, peer: Peer) -> list[Figure]:
    """Measure reading the changes of a small batch."""
    table = lakeidx.Table.open(loaded(source, folder / "reads", {}, args.threads).uri)
    before = table.metadata.latest_snapshot_id() or 0
    runner = LocalRunner(args.threads)
    upsert_files(make_context(table.metadata, "b1", runner=runner), [str(small)])
    logged = lakeidx.Table.open(loaded(source, folder / "logged", PRODUCERS["lookup"], args.threads).uri)
    upsert_files(make_context(logged.metadata, "b1", runner=runner), [str(small)])
    run_compaction(logged.metadata, runner)
    count = pq.read_metadata(small).num_rows
    both = count * 9 // 10 + count
    news = int(pc.sum(pq.read_table(small, columns=[SUMMED]).column(0)).as_py())

    def figure(case: str, of: lakeidx.Table, mode: str, rows: int, java_rows: int | None) -> Figure:
        upto = of.metadata.latest_snapshot_id() or 0

        def read() -> str:
            found = of.changes(before, upto, mode=mode).to_arrow()
            kinds = found.column("_rowkind")
            after = found.filter(pc.is_in(kinds, pa.array(["+I", "+U"])))
            if found.num_rows != rows or int(pc.sum(after.column(SUMMED)).as_py()) != news:
                sys.exit(f"{mode}: {found.num_rows} rows, expected {rows}, or another sum than the batch")
            return ""

        ours = best(case, count, args.rounds, read)
        return ours if java_rows is None else replace(ours, java=peer.read(of.uri, before, upto, mode, java_rows))

    figures = [
        figure("rows of a batch", table, "delta", count, count),
        figure("rows of a changelog", logged, "changelog", both, both),
        figure("changelog after the fact", table, "derived", both, None),
        # Java leaves out files that both states share: it has no rows before the change, and rows that are as they were.
        figure("difference of two states", table, "diff", both, None),
    ]
    return figures + [tail(table, mode, small, args, peer) for mode in ("delta", "derived")]


def tail(table: lakeidx.Table, mode: str, small: Path, args: argparse.Namespace, peer: Peer) -> Figure:
    """Measure the seconds from a commit (its snapshot's time) to its rows in the hands of a reader that looks every `EVERY_S`."""
    batch = pq.read_table(small).slice(0, TAILED_ROWS)
    first = (table.metadata.latest_snapshot_id() or 0) + 1
    count = batch.num_rows
    stop, seen = Event(), Queue[tuple[int, float, int]]()

    def follow() -> None:
        for step in lakeidx.Table.open(table.uri).follow(first, every=EVERY_S, stop=stop, mode=mode):
            rows = step.changes.to_arrow()
            seen.put((step.snapshot.id, time.time(), rows.num_rows))

    cpu = cpu_seconds()
    found, java = [], []
    with peer.tail(table.uri, first, COMMITS if mode == "delta" else 0) as theirs:
        reader = Thread(target=follow, daemon=True)
        reader.start()
        for number in range(COMMITS):
            # Another value each time, so that every row is a change.
            table.upsert(batch.set_column(1, batch.schema.field(1), pc.add(batch.column(1), number + 1)))
            found.append(seen.get(timeout=60))
            java += theirs(count)
    stop.set()
    reader.join()
    wanted = count if mode == "delta" else 2 * count
    if any(rows != wanted for _, _, rows in found):
        sys.exit(f"tail, {mode}: {[rows for _, _, rows in found]} rows, expected {wanted} of each commit")
    committed = [table.metadata.snapshot(number).time_millis / 1000 for number, _, _ in found]
    waits = [at - since for (_, at, _), since in zip(found, committed, strict=True)]
    missing = "missing" if mode == "delta" else None
    median_java = statistics.median(a - b for a, b in zip(java, committed, strict=True)) if java else None
    return Figure(
        f"commit to reader, {mode}", count, round(statistics.median(waits), 3), round(cpu_seconds() - cpu, 2),
        round(os.getloadavg()[0], 1), note=f"median of {COMMITS}, worst {max(waits):.3f}, looks every {EVERY_S} s",
        java=missing if median_java is None else round(median_java, 3),
    )  # fmt: skip


class Peer:
    """The released Java Paimon; it is not there with --no-java, and where there is no Java or Maven."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self._folder, self._args = folder, args
        self.there = not args.no_java and all(shutil.which(tool) for tool in ("java", "javac", "mvn", "bash"))

    def _command(self, *arguments: object) -> list[str]:
        return java_command("ChangesMicro", compiled("ChangesMicro", witness_classpath()), *arguments)

    def write(self, upsert: Path, tables: Sequence[str], producer: str) -> float | str:
        """Return the best seconds of the upsert and its compaction, one table a round."""
        if not self.there:
            return "missing"
        source = self._folder / "source.db" / "batch"
        if not source.exists():
            spec = table_spec(pq.read_schema(upsert)) | {"primaryKeys": [], "options": {"bucket": "-1"}}
            upsert_files(make_context(TableHandle.create(str(source), spec).metadata, "b"), [str(upsert)])
        compacts = {"none": "no", "input": "no", "full-compaction": "full"}.get(producer, "yes")
        lines = run_command(self._command("write", source, self._args.threads, compacts, *tables)).split()
        return round(min(map(float, lines)), 2)

    def read(self, uri: str, after: int, upto: int, mode: str, rows: int) -> float | str:
        """Return the best seconds of reading a range; two rounds more than ours, for a JVM needs them to get warm."""
        if not self.there:
            return "missing"
        options = (f"incremental-between={after},{upto}", f"incremental-between-scan-mode={mode}")
        out = run_command(self._command("read", uri, self._args.threads, self._args.rounds + 2, *options))
        lines = [line.split() for line in out.splitlines()]
        if any(int(found) != rows for found, _ in lines):
            sys.exit(f"{mode}: Java reads {lines[0][0]} rows, expected {rows}")
        return round(min(float(seconds) for _, seconds in lines), 2)

    @contextmanager
    def tail(self, uri: str, first: int, commits: int) -> Iterator[Callable[[int], list[float]]]:
        """Follow a table in a JVM; gives what waits for the next commit and returns when its rows were read."""
        if not self.there or not commits:
            yield lambda _: []
            return
        command = self._command("tail", uri, first, int(EVERY_S * 1000), commits)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = process.stdout

            def seen(rows: int) -> list[float]:
                found, at = lines.readline().split()
                if int(found) != rows:
                    sys.exit(f"tail: Java reads {found} rows, expected {rows} of each commit")
                return [int(at) / 1000]

            try:
                lines.readline()
                yield seen
            finally:
                process.kill()


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--lineitem", type=Path, help="lineitem.parquet of TPC-H scale 1")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--rows", type=int, help="take only the first rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="producers whose name has this in it; or reads: no producers")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    warm_up(packages=("lakeidx.codec",), processes=1)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as temporary:
        folder = Path(temporary)
        rows = plain(pq.read_table(args.lineitem or lineitem(1, args.cache)))
        rows = rows if args.rows is None else rows.slice(0, args.rows)
        source = folder / "lineitem.parquet"
        pq.write_table(rows, source)
        upsert = batch(rows, rows.num_rows // 10, 1, folder / "tenth.parquet")
        small = batch(rows, rows.num_rows // 100, 2, folder / "hundredth.parquet")
        del rows
        peer = Peer(folder, args)
        figures = producers(source, upsert, folder, args, peer)
        if args.only in (None, "reads"):
            figures += reads(source, small, folder, args, peer)
    if args.json:
        print("\n".join(json.dumps(asdict(f)) for f in figures))
        return 0
    table = Printed(title=f"Changes, {args.threads} threads")
    for name in ("case", "rows", "wall s", "cpu s", "load", "limit s", "Java s", "note"):
        table.add_column(name, justify="left" if name in ("case", "note") else "right")
    for f in figures:
        values = (f"{f.rows:,}", str(f.seconds), str(f.cpu_seconds), str(f.load_average))
        table.add_row(f.case, *values, str(f.limit or ""), str(f.java or ""), f.note)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
