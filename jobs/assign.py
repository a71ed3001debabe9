"""Stage bucket_assignment of one batch, for spark-submit: a bucket for every staged row.

spark-submit jobs/assign.py --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from jobs.stage_arguments import make_batch, open_table, run_stage, stage_parser
from lakeidx.pipeline.artifacts import AssignReport
from lakeidx.pipeline.assign import run_assignment


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> AssignReport:
        _, table = open_table(arguments)
        batch = make_batch(arguments, table)
        return run_assignment(batch, batch.files.latest_attempt())

    return run_stage(stage)


if __name__ == "__main__":
    sys.exit(main())
