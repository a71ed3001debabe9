"""Stage index_write of one batch, for spark-submit: data files and hash index files.

spark-submit jobs/run.py index_write --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from lakeidx.batch.artifacts import IndexWriteReport
from lakeidx.batch.upsert import write_attempt
from lakeidx.jobs.arguments import make_batch, open_table, run_job, stage_parser


def main(argv: list[str] | None = None) -> int:
    """Run the stage; return the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> IndexWriteReport:
        _, table = open_table(arguments)
        batch = make_batch(arguments, table)
        attempt = write_attempt(batch, batch.files.latest_attempt())
        return batch.files.require(IndexWriteReport, attempt=attempt)

    return run_job(stage)


if __name__ == "__main__":
    sys.exit(main())
