"""Stage bucket_assignment of one batch, for spark-submit: a bucket for every staged row.

spark-submit jobs/run.py bucket_assignment --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from lakeidx.batch.artifacts import BucketAssignmentReport
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.jobs.arguments import make_batch, open_table, run_job, stage_parser


def main(argv: list[str] | None = None) -> int:
    """Run the stage; return the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> BucketAssignmentReport:
        _, table = open_table(arguments)
        batch = make_batch(arguments, table)
        return run_bucket_assignment(batch, batch.files.latest_attempt())

    return run_job(stage)


if __name__ == "__main__":
    sys.exit(main())
