"""Stage commit of one batch, for spark-submit: the snapshot that publishes the batch, once.

spark-submit jobs/commit.py --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from jobs.stage_arguments import make_batch, open_table, run_stage, stage_parser
from lakeidx.pipeline.artifacts import CommitReport
from lakeidx.pipeline.publish import run_commit


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> CommitReport:
        _, table = open_table(arguments)
        batch = make_batch(arguments, table)
        return run_commit(batch)

    return run_stage(stage)


if __name__ == "__main__":
    sys.exit(main())
