"""Stage index_write of one batch, for spark-submit: data files and hash index files.

spark-submit jobs/write.py --pipeline pipelines/flights.yaml --batch-id b1
"""

from __future__ import annotations

import sys

from jobs.stage_arguments import make_batch, open_table, run_stage, stage_parser
from lakeidx.pipeline.artifacts import WriteReport
from lakeidx.pipeline.write import run_index_write


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    arguments = stage_parser(str(__doc__)).parse_args(argv)

    def stage() -> WriteReport:
        _, table = open_table(arguments)
        batch = make_batch(arguments, table)
        return run_index_write(batch, batch.files.latest_attempt())

    return run_stage(stage)


if __name__ == "__main__":
    sys.exit(main())
