"""Job: compact a table, the buckets that need it or all of them, side by side.

spark-submit jobs/compact.py TABLE [--full] [--partition k=v[,k=v]]... [--shrink-index | --keep-index] [--dry-run]

The report goes to stdout as JSON. Exit codes: 0 done (also when there was nothing to do), 2 anything else, with one line on
stderr. Safe to run beside writers, and again after a crash.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.cli.maintain_commands import parse_partition
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.compact import CompactionReport, run_compaction
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        report = _compact(arguments)
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 2
    print(report.model_dump_json(indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--full", action="store_true", help="merge every bucket into the top level")
    parser.add_argument("--partition", action="append", default=[], help="only this one: k=v[,k=v]; may be repeated")
    parser.add_argument(
        "--shrink-index",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="drop hashes of deleted keys, with --full; default as the option lakeidx.hash-index.shrink says",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be compacted")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark", help="local: without Spark")
    parser.add_argument("--master", help="Spark master; by default what spark-submit says, else local[*]")
    parser.add_argument("--remote", help="Spark Connect address, sc://host:15002")
    parser.add_argument("--parallelism", type=int, help="slots of the cluster, or threads with --engine local")
    return parser


def _compact(arguments: argparse.Namespace) -> CompactionReport:
    table = TableHandle.open(arguments.table)
    partitions = {parse_partition(p, table.schema) for p in arguments.partition} or None
    return run_compaction(
        table.metadata,
        _runner(arguments),
        full=arguments.full,
        partitions=partitions,
        shrink=arguments.shrink_index,
        dry_run=arguments.dry_run,
    )


def _runner(arguments: argparse.Namespace) -> Runner:
    if arguments.engine == "local" or arguments.dry_run:
        return LocalRunner(arguments.parallelism or 2)
    # Without Spark asked for, none needs to be installed.
    from lakeidx.spark.runner import SparkRunner
    from lakeidx.spark.session import get_session

    session = get_session(master=arguments.master, remote=arguments.remote, app_name="lakeidx compaction")
    return SparkRunner(session, parallelism=arguments.parallelism)


if __name__ == "__main__":
    sys.exit(main())
