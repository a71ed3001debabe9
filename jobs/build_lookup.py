"""Job: bring the lookup files of a table up to its newest snapshot.

spark-submit jobs/build_lookup.py TABLE [--local-dir DIR] [--keep]

The report goes to stdout as JSON: how many files were built, reused and removed. Exit codes: 0 done, 2 anything else, with one
line on stderr. Safe to run at any time and again: only data files without a lookup file are read.
"""

from __future__ import annotations

import argparse
import sys

from jobs.engine_arguments import add_engine_arguments, local_runner, spark_runner
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.lookup_store import run_lookup_store
from lakeidx.pipeline.runner import Runner
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
    add_engine_arguments(parser)
    return parser


def _runner(arguments: argparse.Namespace) -> Runner:
    return local_runner(arguments) if arguments.engine == "local" else spark_runner(arguments, "lookup files")


if __name__ == "__main__":
    sys.exit(main())
