"""Stage ingest of one batch, for spark-submit: landing files to staged rows.

spark-submit jobs/ingest.py --pipeline pipelines/flights.yaml --batch-id b1 /landing/a.parquet
"""

from __future__ import annotations

import sys

from jobs.stage_arguments import make_batch, open_table, run_stage, stage_parser
from lakeidx.pipeline.artifacts import IngestReport
from lakeidx.pipeline.ingest import run_ingest


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = stage_parser(str(__doc__))
    parser.add_argument("files", nargs="+", help="landing files, in the order their rows count")
    parser.add_argument("--strict", action="store_true", help="refuse the batch when a row is rejected")
    arguments = parser.parse_args(argv)

    def stage() -> IngestReport:
        config, table = open_table(arguments, create=True)
        batch = make_batch(arguments, table)
        strict = arguments.strict or config.strict
        return run_ingest(
            batch.files, table.schema, arguments.files, config.landing.options(), batch.runner, strict=strict
        )

    return run_stage(stage)


if __name__ == "__main__":
    sys.exit(main())
