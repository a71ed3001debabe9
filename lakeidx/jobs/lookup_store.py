"""Job: bring the lookup files of a table up to its newest snapshot.

spark-submit jobs/run.py lookup_store TABLE [--local-dir DIR] [--keep]

The report goes to stdout as JSON: how many files were built, reused and removed. Exit codes: 0 done, 2 anything else, with one
line on stderr. Safe to run at any time and again: only data files without a lookup file are read.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.jobs.arguments import add_engine_arguments, make_runner, run_job, table_parser
from lakeidx.maintenance.lookup_store import LookupStoreReport, run_lookup_store
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = table_parser(str(__doc__))
    parser.add_argument("--local-dir", help="local directory for files before they are uploaded")
    parser.add_argument("--keep", action="store_true", help="remove nothing")
    add_engine_arguments(parser)
    arguments = parser.parse_args(argv)
    return run_job(lambda: _build(arguments))


def _build(arguments: argparse.Namespace) -> LookupStoreReport:
    table = TableHandle.open(arguments.table)
    runner = make_runner(arguments, "lookup files")
    return run_lookup_store(table.metadata, runner, local_dir=arguments.local_dir, remove=not arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
