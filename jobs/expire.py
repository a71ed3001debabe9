"""Job: expire snapshots, tags and consumers by the table's options, and clean the staging of finished and abandoned batches.

spark-submit jobs/expire.py TABLE [--dry-run] [--keep-staging]

Needs no executors: it lists, reads metadata and deletes. The report goes to stdout as JSON. Exit codes: 0 done, 2 anything else,
with one line on stderr. A run that was cut off leaves a readable table; the next one goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.cleanup import clean_staging
from lakeidx.table.expire import expire_table
from lakeidx.table.handle import TableHandle


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--keep-staging", action="store_true", help="leave the staging of batches alone")
    arguments = parser.parse_args(argv)
    try:
        report = _expire(arguments)
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1))
    return 0


def _expire(arguments: argparse.Namespace) -> dict[str, Any]:
    table = TableHandle.open(arguments.table)
    now_ms = int(time.time() * 1000)
    expired = expire_table(table.metadata, table.schema, now_ms=now_ms, dry_run=arguments.dry_run)
    report: dict[str, Any] = {
        "dry_run": arguments.dry_run,
        "snapshots": list(expired.snapshots),
        "earliest": expired.earliest,
        "tags": list(expired.tags),
        "consumers": list(expired.consumers),
        "files": len(expired.files),
        "bytes": expired.bytes,
        "by_role": dict(expired.count_by_role),
        "notes": list(expired.notes),
    }
    if not arguments.keep_staging:
        cleaned = clean_staging(table.metadata, now_ms=now_ms, dry_run=arguments.dry_run)
        report["staging"] = {
            "finished": len(cleaned.finished),
            "abandoned": list(cleaned.abandoned),
            "files": len(cleaned.files),
            "bytes": cleaned.bytes,
        }
    return report


if __name__ == "__main__":
    sys.exit(main())
