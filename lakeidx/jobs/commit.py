"""Stage commit of one batch, for spark-submit: the snapshot that publishes the batch, once.

spark-submit jobs/run.py commit --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from lakeidx.batch.artifacts import BucketAssignmentReport, CommitReport
from lakeidx.batch.upsert import commit_batch
from lakeidx.errors import InvalidInputError
from lakeidx.jobs.arguments import make_batch, open_table, run_job, stage_parser
from lakeidx.maintenance.after_commit import compact_after_commit


def main(argv: list[str] | None = None) -> int:
    """Run the stage; return the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> CommitReport:
        config, table = open_table(arguments)
        batch = make_batch(arguments, table)
        if config.publish == "after_checks" and batch.files.decided() != "release":
            raise InvalidInputError(
                f"{config.table} has publish: after_checks, and checks are judged in Dagster: run the commit there, or hold"
                " batches by limits and release them with `lakeidx batch release`"
            )
        report = commit_batch(batch)
        compact_after_commit(table.metadata, batch.runner, batch.files.read(BucketAssignmentReport))
        return report

    return run_job(stage)


if __name__ == "__main__":
    sys.exit(main())
