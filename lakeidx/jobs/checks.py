"""Job: judge a pipeline's table by its rules: all of it, or the buckets that a committed batch has touched.

spark-submit jobs/run.py checks --pipeline pipelines/flights.yaml [--batch-id b1]

The report goes to stdout as JSON: the results, with what they rest on. Exit codes: 0 nothing was found, 1 a rule failed, 2 anything
else, with one line on stderr. Nothing is changed. A check of the whole table that was interrupted resumes where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.context import make_context
from lakeidx.jobs.arguments import make_runner, open_table, run_job, stage_parser
from lakeidx.jobs.pipes import pipes_asked, sent
from lakeidx.maintenance.after_commit import table_with
from lakeidx.pipeline_file.batch_checks import batch_results
from lakeidx.pipeline_file.table_checks import table_results, verify_whole
from lakeidx.quality.whole_table import Verified
from lakeidx.tasks.lazy_runner import LazyRunner

_log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = stage_parser(str(__doc__), batch=False)
    parser.add_argument("--unpublished", action="store_true", help="judge the table as it would be with the batch")
    arguments = parser.parse_args(argv)
    found: list[Verified] = []

    def work() -> dict[str, Any]:
        found.append(_check(arguments))
        # What a sample names may be of any type.
        report: dict[str, Any] = json.loads(json.dumps(found[0].to_json(), default=str))
        return report

    code = run_job(work)
    # Whoever listens through Pipes takes a job that ends otherwise for one that did not do its work.
    red = any(not r.passed for f in found for r in f.results) and not pipes_asked()
    return code or int(red)


def _check(arguments: argparse.Namespace) -> Verified:
    config, table = open_table(arguments)
    runner = LazyRunner(lambda: make_runner(arguments, f"checks of {config.table}"))
    if arguments.batch_id is not None:
        context = make_context(table.metadata, arguments.batch_id, runner=runner, overwrite=arguments.overwrite)
        if arguments.unpublished:
            return batch_results(config, table_with(context), runner=runner)
        return batch_results(config, context, gone=context.files.read(IngestReport) is None, runner=runner)
    touched = sent("buckets")
    if touched is not None:
        buckets = [(bytes.fromhex(partition), int(bucket)) for partition, bucket in touched]
        return table_results(config, table, buckets=buckets, runner=runner)
    return verify_whole(
        config,
        table,
        runner=runner,
        progress=lambda done, total: _log.info("verification: %d of %d groups of partitions", done, total),
    )


if __name__ == "__main__":
    sys.exit(main())
