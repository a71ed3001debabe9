"""What the ways cost that docs/decisions rejects, beside the ones it chose: one table, by decision.

Every way gets the same input and its result is checked. Processor seconds are the best of some rounds, after one that is not
counted; counts do not depend on the machine.

    python -m bench.bench_decisions [--only shuffle ...] [--rows 600000] [--rounds 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.decisions.figure import Figure
from bench.lineitem import CACHE, lineitem


def _shuffle(args: argparse.Namespace, folder: Path) -> list[Figure]:
    from bench.decisions.shuffle import measure

    return measure(lineitem(args.rows / 6_000_000, args.cache), args.rounds, folder)


def _commits(args: argparse.Namespace, folder: Path) -> list[Figure]:
    from bench.decisions.commits import PARTS

    return [figure for part in PARTS for figure in part()]


def _key_state(args: argparse.Namespace, folder: Path) -> list[Figure]:
    from bench.decisions.key_state import measure

    return measure(args.rows * 5, args.rounds, folder)


def _checks(args: argparse.Namespace, folder: Path) -> list[Figure]:
    from bench.decisions.checks import measure

    return measure(args.rows, args.rounds, folder)


def _readers(args: argparse.Namespace, folder: Path) -> list[Figure]:
    from bench.decisions.readers import measure

    return measure(args.changes, args.rounds)


#: Imports are inside: Spark and Great Expectations are large.
WORK: dict[str, Callable[[argparse.Namespace, Path], list[Figure]]] = {
    "shuffle": _shuffle,
    "commits": _commits,
    "key_state": _key_state,
    "checks": _checks,
    "readers": _readers,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--changes", type=int, default=300, help="damaged files per reader")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--json", action="store_true", help="one JSON object per figure")
    args = parser.parse_args(argv)
    figures: list[Figure] = []
    for name in args.only:
        with tempfile.TemporaryDirectory(prefix="lakeidx-decisions-") as folder:
            figures += WORK[name](args, Path(folder))
    if args.json:
        for figure in figures:
            print(json.dumps(asdict(figure)))
        return 0
    view = Table("decision", "way", "chosen", "what", "value", "unit", title="Decisions")
    for f in figures:
        view.add_row(str(f.decision), f.way, "yes" if f.chosen else "", f.what, f"{f.value:,g}", f.unit)
    Console(width=None if sys.stdout.isatty() else 190).print(view)
    return 0


if __name__ == "__main__":
    sys.exit(main())
