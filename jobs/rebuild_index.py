"""Job: give the data files of a table the file indexes that its options ask for, or one type for some columns.

``python -m jobs.rebuild_index TABLE [--type bitmap --columns a,b [--drop]] [--master local[4]]``

Safe to run at any time and again: it competes with writers and compactions as one more commit, and without ``--type``
files that have what is asked for stay as they are.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.cli.index_commands import rebuild_wish
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.index_rebuild import run_index_rebuild
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.session import get_session
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--type", default=None, help="index type; default: as the table's options say")
    parser.add_argument("--columns", default="", help="comma list")
    parser.add_argument("--drop", action="store_true", help="drop instead of build")
    parser.add_argument("--master", default=None, help="Spark master; default: this process, two threads")
    parser.add_argument("--remote", default=None, help="Spark Connect address")
    arguments = parser.parse_args(argv)
    columns = [c.strip() for c in arguments.columns.split(",") if c.strip()]
    runner: Runner = LocalRunner(2)
    try:
        if arguments.master or arguments.remote:
            runner = SparkRunner(get_session(master=arguments.master, remote=arguments.remote))
        table = TableHandle.open(arguments.table)
        wish = rebuild_wish(table, arguments.type, columns, drop=arguments.drop)
        print(run_index_rebuild(table.metadata, runner, wish).model_dump_json(indent=2))
    except LakeIdxError as error:
        print(f"rebuild_index: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
