"""Job: expire snapshots, tags, consumers and changelogs by the table's options, and clean up after batches and lookups.

spark-submit jobs/run.py snapshot_expiry TABLE [--dry-run] [--keep-staging]

Needs no executors: it lists, reads metadata and deletes. The report goes to stdout as JSON. Exit codes: 0 done, 2 anything else,
with one line on stderr. A run that was cut off leaves a readable table; the next one continues.
"""

from __future__ import annotations

import sys

from lakeidx.jobs.arguments import run_job, table_parser
from lakeidx.maintenance.snapshot_expiry import run_snapshot_expiry
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = table_parser(str(__doc__))
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("--keep-staging", action="store_true", help="do not clean the staging of batches")
    arguments = parser.parse_args(argv)
    return run_job(
        lambda: run_snapshot_expiry(
            TableHandle.open(arguments.table), staging=not arguments.keep_staging, dry_run=arguments.dry_run
        )
    )


if __name__ == "__main__":
    sys.exit(main())
