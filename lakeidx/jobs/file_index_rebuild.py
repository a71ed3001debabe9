"""Job: build the file indexes that a table's options request for its data files, or one type for some columns.

spark-submit jobs/run.py file_index_rebuild TABLE [--type bitmap --columns a,b [--drop]]

The report goes to stdout as JSON. Exit codes: 0 done, 2 anything else, with one line on stderr. Safe to run at any time and
again: it competes with writers and compactions as one more commit, and without ``--type`` files that have what is requested
stay as they are.
"""

from __future__ import annotations

import argparse
import sys

from lakeidx.jobs.arguments import add_engine_arguments, make_runner, run_job, table_parser
from lakeidx.maintenance.file_index_rebuild import FileIndexRebuildReport, rebuild_spec, run_file_index_rebuild
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = table_parser(str(__doc__))
    parser.add_argument("--type", help="index type; default: the table's options")
    parser.add_argument("--columns", default="", help="comma list")
    parser.add_argument("--drop", action="store_true", help="drop instead of build")
    add_engine_arguments(parser)
    arguments = parser.parse_args(argv)
    return run_job(lambda: _rebuild(arguments))


def _rebuild(arguments: argparse.Namespace) -> FileIndexRebuildReport:
    table = TableHandle.open(arguments.table)
    columns = [c.strip() for c in arguments.columns.split(",") if c.strip()]
    spec = rebuild_spec(table.schema, arguments.type, columns, drop=arguments.drop)
    return run_file_index_rebuild(table.metadata, make_runner(arguments, "file index rebuild"), spec)


if __name__ == "__main__":
    sys.exit(main())
