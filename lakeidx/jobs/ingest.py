"""Stage ingest of one batch, for spark-submit: landing files to staged rows.

spark-submit jobs/ingest.py --pipeline pipelines/flights.yaml --batch-id b1 /landing/a.parquet
"""

from __future__ import annotations

import sys

from lakeidx.batch.artifacts import IngestReport
from lakeidx.jobs.engine_arguments import run_job
from lakeidx.jobs.stage_arguments import make_batch, open_table, stage_parser
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.maintenance.landed_columns import ingest_landing


def main(argv: list[str] | None = None) -> int:
    """Run the stage; return the exit code."""
    parser = stage_parser(str(__doc__))
    parser.add_argument("files", nargs="+", help="landing files, in the order their rows count")
    parser.add_argument("--strict", action="store_true", help="refuse the batch when a row is rejected")
    parser.add_argument(
        "--max-rejected", help="rows, a share like 5%%, or both like 100,5%%; default: the pipeline file"
    )
    arguments = parser.parse_args(argv)

    def stage() -> IngestReport:
        config, table = open_table(arguments, create=True)
        batch = make_batch(arguments, table)
        return ingest_landing(
            batch,
            arguments.files,
            config.landing_options(),
            strict=arguments.strict or config.strict,
            max_rejected=RejectLimit.parse(arguments.max_rejected) if arguments.max_rejected else config.reject_limit(),
        )

    return run_job(stage)


if __name__ == "__main__":
    sys.exit(main())
