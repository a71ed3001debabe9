"""Planning, views and commits of a table of a million data files (`bench.metadata_table`), each in a process of its own.

Seconds are those of the whole process, which imports what the case needs: start, imports, opening the table and the work; `work`
is the share after imports. Results are checked before a figure is given. Requests are counted as the store sees them.

Cases: plan batch, plan scan, whole view, commit, full merge, plan compaction, compaction sensor.

    python -m bench.bench_metadata [--files 1000000] [--folder FOLDER] [--case NAME ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.metadata_cases import CASES, run_case
from bench.metadata_table import make_metadata
from bench.scale.figure import in_bare_process


def main() -> None:
    """Make the table, run the cases, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the table is kept; default: a folder that is removed")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        uri = make_metadata(folder, args.files)
        found = []
        for name in args.case or CASES:
            found.append(in_bare_process(run_case, name, uri, args.files, folder))
            if args.json:
                print(json.dumps(found[-1]), flush=True)
    if not args.json:
        view = Table(*found[0], title="metadata", title_justify="left")
        for figure in found:
            view.add_row(*(str(figure.get(c, "")) for c in found[0]))
        Console(width=200).print(view)


if __name__ == "__main__":
    main()
