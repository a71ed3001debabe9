"""Stage ingest of one batch, for spark-submit: landing files to staged rows.

spark-submit jobs/run.py ingest --pipeline pipelines/flights.yaml --batch-id b1 /landing/a.parquet
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from lakeidx.batch.artifacts import IngestReport
from lakeidx.errors import InvalidInputError
from lakeidx.jobs.arguments import make_batch, open_table, run_job, stage_parser
from lakeidx.jobs.pipes import pipes_asked, sent
from lakeidx.landing.cast_rows import RefuseRows
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.maintenance.landed_columns import ingest_landing
from lakeidx.pipeline_file.model import PipelineConfig

_SET_ASIDE = "lakeidx.dagster.expectations.set_aside"


def main(argv: list[str] | None = None) -> int:
    """Run the stage; return the exit code."""
    parser = stage_parser(str(__doc__))
    parser.add_argument(
        "files", nargs="*" if pipes_asked() else "+", help="landing files, in the order their rows count"
    )
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
            arguments.files or sent("files"),
            config.landing_options(),
            strict=arguments.strict or config.strict,
            max_rejected=RejectLimit.parse(arguments.max_rejected) if arguments.max_rejected else config.reject_limit(),
            judge=_row_judge(config),
        )

    return run_job(stage)


def _row_judge(config: PipelineConfig) -> RefuseRows | None:
    """Return what sets rows aside; InvalidInputError when Great Expectations, which judges them, is not there."""
    if not any(e.set_aside for e in config.expectations):
        return None
    if find_spec("great_expectations") is None:
        raise InvalidInputError("expectations with set_aside need Great Expectations: pip install 'lakeidx[dagster]'")
    # Found by its name: jobs do without the Dagster project and its libraries, unless a file asks for this.
    judge: RefuseRows = import_module(_SET_ASIDE).row_judge(config)
    return judge


if __name__ == "__main__":
    sys.exit(main())
