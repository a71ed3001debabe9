"""Job: bring the lookup files of a table up to its newest snapshot.

spark-submit jobs/build_lookup.py TABLE [--local-dir DIR] [--keep]

The report goes to stdout as JSON: how many files were built, reused and removed. Exit codes: 0 done, 2 anything else, with one
line on stderr. Safe to run at any time and again: only data files without a lookup file are read.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.lookup_store import run_lookup_store
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        table = TableHandle.open(arguments.table)
        report = run_lookup_store(
            table.metadata, _runner(arguments), local_dir=arguments.local_dir, remove=not arguments.keep
        )
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 2
    print(report.model_dump_json(indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--local-dir", help="where tasks make files before they go to the store")
    parser.add_argument("--keep", action="store_true", help="remove nothing")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark", help="local: without Spark")
    parser.add_argument("--master", help="Spark master; by default what spark-submit says, else local[*]")
    parser.add_argument("--remote", help="Spark Connect address, sc://host:15002")
    parser.add_argument("--parallelism", type=int, help="slots of the cluster, or threads with --engine local")
    return parser


def _runner(arguments: argparse.Namespace) -> Runner:
    if arguments.engine == "local":
        return LocalRunner(arguments.parallelism or 2)
    # Without Spark asked for, none needs to be installed.
    from lakeidx.spark.runner import SparkRunner
    from lakeidx.spark.session import get_session

    session = get_session(master=arguments.master, remote=arguments.remote, app_name="lakeidx lookup files")
    return SparkRunner(session, parallelism=arguments.parallelism)


if __name__ == "__main__":
    sys.exit(main())
