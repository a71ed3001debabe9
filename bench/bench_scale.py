"""What must hold past one machine (issue 13), one figure each; results are checked first.

assignment   a batch of 100,000 known keys into a table of 4,000 buckets, behind a store that takes 30 ms for each request: in the
             driver, and in placing tasks, which read each index file once
shuffle      100,000 rows to 10 and to 10,000 targets through the functions of the Spark runner, and the bytes that Spark would
             move; the largest function that a task of a batch into 20,000 buckets is sent
index_files  100,000 index files to 1,000 placing tasks: what one map task sends and one placing task takes, and all by calculation
key_state    the state of 10 million text keys built; a hundredth of them asked by a fresh process, its start included, behind that
             store; manifests of that state and of those of a hundred and a thousand times its keys
checks       the checks after 100,000 random keys went into the 2,000 buckets of a table of 20 million, beside that upsert

Memory (`mib`) is what the process takes beyond what it had. Plans of compactions and the sensor are in `bench.bench_metadata`.

    python -m bench.bench_scale [--only NAME ...] [--share 1.0] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.scale import assignment, checks, index_files, key_state, shuffle
from bench.scale.figure import Figure

#: Tables of the targets; `--share` makes them smaller.
BUCKETS, STATE_KEYS, CHECKED_KEYS = 4_000, 10_000_000, 20_000_000

CASES: Mapping[str, Callable[[float, Path], list[Figure]]] = {
    "assignment": lambda share, folder: assignment.measure(max(8, int(BUCKETS * share)), folder),
    "shuffle": lambda share, folder: shuffle.measure(folder),
    "index_files": lambda share, folder: index_files.measure(folder),
    "key_state": lambda share, folder: key_state.measure(int(STATE_KEYS * share), folder),
    "checks": lambda share, folder: checks.measure(int(CHECKED_KEYS * share), folder),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--share", type=float, default=1.0, help="of the tables' sizes")
    parser.add_argument("--folder", type=Path, help="where tables are made; default: the system's")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    figures = []
    for name in args.only:
        with tempfile.TemporaryDirectory(prefix="lakeidx-scale-", dir=args.folder) as folder:
            figures += [f.to_json() for f in CASES[name](args.share, Path(folder))]
    if args.json:
        for figure in figures:
            print(json.dumps(figure))
        return 0
    columns = list(dict.fromkeys(key for figure in figures for key in figure))
    view = Table(*columns, title="past one machine", title_justify="left")
    for figure in figures:
        view.add_row(*(f"{v:,}" if isinstance(v := figure.get(c, ""), int | float) else v for c in columns))
    Console(width=None if sys.stdout.isatty() else 190).print(view)
    return 0


if __name__ == "__main__":
    sys.exit(main())
