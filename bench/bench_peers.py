"""lakeidx beside its peers: one table of lineitem in each, the same files in random key order, one run, one table of figures.

Every phase's result is checked against NumPy (rows, a sum, a sum over key and value together) before its time counts. Peers run
one after another, each in a process and, where the project has no such package, a Python environment of its own below --cache
(installed once). Each does all phases on a small table first; a read is the best of three rounds. A peer that is not there, or
that cannot do a phase, is shown with the reason. Paimon's jar for Spark comes from LAKEIDX_PAIMON_SPARK_JAR, the others' jars
come through Spark's packages.

    python -m bench.bench_peers [--rows 2000000] [--peers NAME,NAME] [--limit 120] [--minutes 30] [--keep] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.__main__ import surroundings
from bench.lineitem import CACHE, lineitem
from bench.peers.data import SMALL, make_data
from bench.peers.environments import ROOT, peers
from bench.peers.measure import PHASES, Figure, run_peer
from bench.peers.page import KEPT, Run, draw, on_terminal, reasons

RESULTS = ROOT / "bench/results"
#: The committed picture of the committed run.
PICTURE = ROOT / "docs/images/peers.png"
WARM_ROWS = 20_000


def measure(
    source: Path, rows: int, names: Sequence[str], cache: Path, limit: float, minutes: float, folder: Path
) -> Iterator[Run]:
    """Measure the named peers; yield the figures so far, and what they depend on, after each."""
    around = surroundings()
    data, warm = make_data(source, rows, folder / "data"), make_data(source, WARM_ROWS, folder / "warm")
    figures: list[Figure] = []
    small = min(SMALL, data.rows // 10)
    end = time.monotonic() + minutes * 60
    for kind in peers():
        if kind.name not in names:
            continue
        if time.monotonic() > end:
            why = f"the {minutes:g} minutes of the run were used up"
            figures += [Figure(kind.name, name, "not begun", why) for name, _, _ in PHASES]
        else:
            print(f"{kind.name} ...", file=sys.stderr)
            figures += run_peer(kind, data, warm, folder, cache, limit)
        yield {**around, "rows": data.rows, "small_rows": small, "figures": [asdict(f) for f in figures]}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 when a peer gave a wrong answer."""
    known = [k.name for k in peers()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--peers", type=lambda t: t.split(","), default=known, help=", ".join(known))
    parser.add_argument("--limit", type=float, default=120, help="seconds that a phase may take")
    parser.add_argument("--minutes", type=float, default=30, help="time for all; a peer that comes later is not begun")
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--cache", type=Path, default=ROOT / ".work/peers", help="environments of the peers")
    parser.add_argument("--keep", action="store_true", help="make this run the one that the documentation shows")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    unknown = [n for n in args.peers if n not in known]
    if unknown:
        parser.error(f"unknown peer {', '.join(unknown)}; there are {', '.join(known)}")
    source = args.lineitem or lineitem(1, CACHE)
    RESULTS.mkdir(exist_ok=True)
    run: Run = {"figures": []}
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        for run in measure(
            source, args.rows, args.peers, args.cache.absolute(), args.limit, args.minutes, Path(folder)
        ):
            # A run that somebody stops leaves the figures of the peers before.
            _write(run, RESULTS / "peers.json")
    draw(run, RESULTS / "peers.png")
    if args.keep:
        _write(run, KEPT)
        draw(run, PICTURE)
    if args.json:
        for figure in run["figures"]:
            print(json.dumps({"rows": run["rows"], **figure}))
    else:
        console = Console(width=None if sys.stdout.isatty() else 220)
        console.print(on_terminal(run))
        for reason in reasons(run):
            console.print(f"[dim]{reason}[/dim]")
    return int(any(f["status"] == "wrong" for f in run["figures"]))


def _write(run: Run, path: Path) -> None:
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
