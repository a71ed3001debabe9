"""What the stage entries share: their arguments, the batch they work on, where tasks run, and how they end.

Exit codes: 0 done, 1 rows were rejected and the batch is strict, 2 anything else, with one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from dagster_project.runners import LazyRunner
from jobs.engine_arguments import add_engine_arguments, local_runner, spark_runner
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline.config import PipelineConfig, load_pipeline
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.runner import Runner
from lakeidx.pipeline.upsert import make_context
from lakeidx.table.handle import TableHandle


def stage_parser(description: str) -> argparse.ArgumentParser:
    """Arguments that every stage takes."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--pipeline", type=Path, required=True, help="pipeline file of the table")
    parser.add_argument("--batch-id", required=True, help="the batch; stages of one batch find each other by it")
    parser.add_argument(
        "--overwrite", choices=("partitions", "table"), help="replace instead of upsert; give it to every stage"
    )
    add_engine_arguments(parser)
    return parser


def make_runner(arguments: argparse.Namespace) -> Runner:
    """Where the stage's tasks run."""
    if arguments.engine == "local":
        return local_runner(arguments)
    # A stage that has finished before needs no Spark.
    return LazyRunner(lambda: spark_runner(arguments, arguments.batch_id))


def open_table(arguments: argparse.Namespace, *, create: bool = False) -> tuple[PipelineConfig, TableHandle]:
    """The pipeline and its table; stores take their credentials from the environment (AWS_*)."""
    config = load_pipeline(arguments.pipeline)
    table = TableHandle.create(config.uri, config.spec(), exist_ok=True) if create else TableHandle.open(config.uri)
    return config, table


def make_batch(arguments: argparse.Namespace, table: TableHandle) -> BatchContext:
    """The batch as the stages see it."""
    return make_context(
        table.metadata, arguments.batch_id, runner=make_runner(arguments), overwrite=arguments.overwrite
    )


def run_stage(stage: Callable[[], BaseModel]) -> int:
    """Run a stage, print its report as JSON on stdout; gives the exit code."""
    try:
        report = stage()
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 1 if "the batch is strict" in error.message else 2
    print(report.model_dump_json(indent=1))
    return 0
