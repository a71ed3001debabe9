"""Job: compact a table, the buckets that need it or all of them, side by side.

spark-submit jobs/run.py compaction TABLE [--full] [--partition k=v[,k=v]]... [--shrink-index | --keep-index] [--dry-run]

The report goes to stdout as JSON. Exit codes: 0 done (also when there was nothing to do), 2 anything else, with one line on
stderr. Safe to run beside writers, and again after a crash. A partition that is not there (any more) is logged and passed over: a
scheduler may have named it before it expired.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.jobs.arguments import add_engine_arguments, make_runner, run_job, table_parser
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.maintenance.partition_argument import find_partitions
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Run the job; return the exit code."""
    arguments = _parser().parse_args(argv)
    return run_job(lambda: _compact(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = table_parser(str(__doc__))
    parser.add_argument("--full", action="store_true", help="merge every bucket into the top level")
    parser.add_argument("--partition", action="append", default=[], help="only this one: k=v[,k=v]; may be repeated")
    parser.add_argument(
        "--shrink-index",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="drop hashes of deleted keys, with --full; default: option lakeidx.hash-index.shrink",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be compacted, change nothing")
    add_engine_arguments(parser)
    return parser


def _compact(arguments: argparse.Namespace) -> CompactionReport:
    table = TableHandle.open(arguments.table)
    return run_compaction(
        table.metadata,
        make_runner(arguments, "compaction", local=arguments.dry_run),
        full=arguments.full,
        partitions=find_partitions(table, arguments.partition, missing_ok=True),
        shrink=arguments.shrink_index,
        dry_run=arguments.dry_run,
    )


if __name__ == "__main__":
    sys.exit(main())
