"""Job: compact a table, the buckets that need it or all of them, side by side.

spark-submit jobs/compact.py TABLE [--full] [--partition k=v[,k=v]]... [--shrink-index | --keep-index] [--dry-run]

The report goes to stdout as JSON. Exit codes: 0 done (also when there was nothing to do), 2 anything else, with one line on
stderr. Safe to run beside writers, and again after a crash.
"""

from __future__ import annotations

import argparse
import sys

from jobs.engine_arguments import add_engine_arguments, local_runner, spark_runner
from lakeidx.cli.maintain_commands import chosen_partitions
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.compact import CompactionReport, run_compaction
from lakeidx.pipeline.runner import Runner
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
    add_engine_arguments(parser)
    return parser


def _compact(arguments: argparse.Namespace) -> CompactionReport:
    table = TableHandle.open(arguments.table)
    return run_compaction(
        table.metadata,
        _runner(arguments),
        full=arguments.full,
        partitions=chosen_partitions(arguments.partition, table.schema),
        shrink=arguments.shrink_index,
        dry_run=arguments.dry_run,
    )


def _runner(arguments: argparse.Namespace) -> Runner:
    return (
        local_runner(arguments)
        if arguments.engine == "local" or arguments.dry_run
        else spark_runner(arguments, "compaction")
    )


if __name__ == "__main__":
    sys.exit(main())
