"""Job: expire snapshots, tags, consumers and changelogs by the table's options, and clean up after batches and lookups.

spark-submit jobs/expire.py TABLE [--dry-run] [--keep-staging]

Needs no executors: it lists, reads metadata and deletes. The report goes to stdout as JSON. Exit codes: 0 done, 2 anything else,
with one line on stderr. A run that was cut off leaves a readable table; the next one goes on.
"""

from __future__ import annotations

import argparse
import json
import sys

from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.expiry import expire_everything
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--keep-staging", action="store_true", help="leave the staging of batches alone")
    arguments = parser.parse_args(argv)
    try:
        table = TableHandle.open(arguments.table)
        report = expire_everything(table, staging=not arguments.keep_staging, dry_run=arguments.dry_run)
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
