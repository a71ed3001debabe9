"""What the main job prints at its end: what happened, the proof of the result, two queries, and where to look next."""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import lakeidx
from lakeidx.pipeline_file.model import load_pipeline

#: United's flight 1545 to Houston on 1 January, in the file that comes first.
_KEY = pa.table(
    {
        "month": pa.array([1], pa.int32()),
        "time_hour": [datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC)],
        "carrier": ["UA"],
        "flight": pa.array([1545], pa.int32()),
    }
)


def print_report(runs: list[dict[str, Any]], seconds: float, *, expected: int | None) -> int:
    """Print everything; gives 0 when the table holds what it should, else 1.

    runs       metrics of every run, by ``<stage>.<figure>``
    expected   rows the table must have; None when only a part was run
    """
    console = Console(width=None if Console().is_terminal else 110)
    config = load_pipeline(Path(__file__).parents[2] / "pipelines" / "flights.yaml")
    table = lakeidx.Table.open(config.uri)
    console.print(_runs_table(runs, table))
    ok = _prove(console, table, expected)
    _queries(console, table)
    console.print(f"\n{len(runs)} landing files in {seconds:.1f} s. The table is in {config.uri}")
    _next_steps(console, config.uri)
    return 0 if ok else 1


def _runs_table(runs: list[dict[str, Any]], table: lakeidx.Table) -> Table:
    out = Table(title="What happened", title_justify="left")
    for name in ("month", "rows in", "inserts", "updates", "rejected", "buckets", "snapshot", "seconds"):
        out.add_column(name, justify="right")
    months: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        months.setdefault(run["key"][:7], []).append(run)
    for month, parts in months.items():
        total = {n: sum(p.get(n, 0) for p in parts) for n in ("ingest.rows_in", "commit.inserts", "commit.updates",
                                                             "ingest.rows_rejected", "seconds")}  # fmt: skip
        out.add_row(
            month,
            f"{total['ingest.rows_in']:,}",
            f"{total['commit.inserts']:,}",
            f"{total['commit.updates']:,}",
            f"{total['ingest.rows_rejected']:,}",
            str(max(p.get("bucket_assignment.buckets", 0) for p in parts)),
            ", ".join(
                str(p.get("commit.snapshot_id")) + ("*" if p.get("commit.already_committed") else "") for p in parts
            ),
            f"{total['seconds']:.1f}",
        )
    return out


def _prove(console: Console, table: lakeidx.Table, expected: int | None) -> bool:
    rows = table.scan(columns=["status"]).to_arrow()
    counts = {v["values"]: v["counts"] for v in pc.value_counts(rows.column("status")).to_pylist()}
    scheduled = counts.get("scheduled", 0)
    right = scheduled == 0 and (expected is None or rows.num_rows == expected)
    wanted = "" if expected is None else f" of {expected:,} expected"
    verdict = "[green]as it should be[/green]" if right else "[red]WRONG[/red]"
    statuses = ", ".join(f"{n:,} {s}" for s, n in sorted(counts.items()))
    console.print(f"\nA merge-on-read scan returns {rows.num_rows:,} rows{wanted}: {statuses}")
    console.print(f"{scheduled} rows are still scheduled: the table is {verdict}")
    return right


def _queries(console: Console, table: lakeidx.Table) -> None:
    rows = table.scan(columns=["carrier", "dep_delay"], where="status = 'flown'").to_arrow()
    grouped = rows.group_by("carrier").aggregate([("dep_delay", "mean"), ("dep_delay", "count")])
    top = grouped.sort_by([("dep_delay_count", "descending")]).slice(0, 5)
    console.print(_as_table("Mean departure delay of the five largest carriers (minutes)", top))
    one = table.scan(
        where="month = 6 AND carrier = 'UA' AND dest = 'LAX'",
        columns=["day", "flight", "tailnum", "dep_delay", "status"],
        limit=5,
    ).to_arrow()
    console.print(_as_table("month = 6 AND carrier = 'UA' AND dest = 'LAX', five rows", one))
    started = time.perf_counter()
    found = table.lookup(_KEY)
    milliseconds = (time.perf_counter() - started) * 1000
    shown = found.select([*_KEY.column_names, "origin", "dest", "dep_delay", "status"])
    console.print(_as_table(f"One flight looked up by its key, in {milliseconds:.0f} ms", shown))


def _next_steps(console: Console, uri: str) -> None:
    """Say what to type next, with paths as they are from the folder in which the job was started."""
    here = Path.cwd()
    program, folder = (os.path.relpath(p, here) for p in (Path(sys.executable).with_name("lakeidx"), uri))
    console.print("\nWhat to type next:")
    for command, purpose in (
        ("make ui", "the table, its history, checks and plots in Dagster"),
        (f"{program} scan {folder} --where \"dest = 'LAX'\" --limit 5", ""),
        (f"{program} changes {folder} 1..2 --limit 6", "what the second file has changed"),
        (f"{program} init FILES", "a table of files of your own"),
    ):
        console.print(f"  {command}" + (f"   # {purpose}" if purpose else ""), soft_wrap=True, highlight=False)


def _as_table(title: str, rows: pa.Table) -> Table:
    out = Table(title=title, title_justify="left", min_width=len(title) + 2)
    for name in rows.column_names:
        out.add_column(name)
    for row in rows.to_pylist():
        out.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()))
    return out
