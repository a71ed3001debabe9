"""Job: bring the lookup files of a table up to its newest snapshot.

``python -m jobs.build_lookup TABLE [--local-dir DIR] [--master local[4]]``

Safe to run at any time and again: only data files without a lookup file are read.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.lookup_store import run_lookup_store
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.session import get_session
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--local-dir", default=None, help="where tasks make files before they go to the store")
    parser.add_argument("--keep", action="store_true", help="remove nothing")
    parser.add_argument("--master", default=None, help="Spark master; default: this process, two threads")
    parser.add_argument("--remote", default=None, help="Spark Connect address")
    arguments = parser.parse_args(argv)
    runner: Runner = LocalRunner(2)
    try:
        if arguments.master or arguments.remote:
            runner = SparkRunner(get_session(master=arguments.master, remote=arguments.remote))
        table = TableHandle.open(arguments.table)
        report = run_lookup_store(table.metadata, runner, local_dir=arguments.local_dir, remove=not arguments.keep)
        print(report.model_dump_json(indent=2))
    except LakeIdxError as error:
        print(f"build_lookup: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
