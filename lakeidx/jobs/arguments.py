"""Arguments, runners and endings that the jobs share.

Exit codes: 0 done, 1 a strict batch has rejected rows, 2 anything else, with one line on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakeidx.batch.context import BatchContext, make_context
from lakeidx.errors import InvalidInputError, LakeIdxError, RejectedRowsError
from lakeidx.jobs.pipes import (
    CONTEXT_ARGUMENT,
    MESSAGES_ARGUMENT,
    STORE_ARGUMENT,
    JobPipes,
    job_pipes,
    pipes_asked,
    sent,
)
from lakeidx.maintenance.wanted_schema import ensure_table
from lakeidx.pipeline_file.model import PipelineConfig, load_pipeline
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.lazy_runner import LazyRunner
from lakeidx.tasks.logs import print_logs
from lakeidx.tasks.runner import LocalRunner, Runner, spark_runner


def table_parser(description: str) -> argparse.ArgumentParser:
    """Make the parser of a job on one table."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("table", help="the table's directory")
    _add_pipes_arguments(parser)
    return parser


def _add_pipes_arguments(parser: argparse.ArgumentParser) -> None:
    """Let Dagster Pipes pass its parameters as arguments, which services without environment variables need."""
    for name in (CONTEXT_ARGUMENT, MESSAGES_ARGUMENT, STORE_ARGUMENT):
        parser.add_argument(name, help=argparse.SUPPRESS)


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``, ``--master``, ``--remote`` and ``--parallelism``."""
    parser.add_argument(
        "--engine", choices=("spark", "local"), default="spark", help="local: in this process, without Spark"
    )
    parser.add_argument("--master", help="Spark master; default: that of spark-submit, else local[*]")
    parser.add_argument("--remote", help="Spark Connect address, sc://host:15002")
    parser.add_argument("--parallelism", type=int, help="slots of the cluster, or threads with --engine local")


def make_runner(arguments: argparse.Namespace, name: str, *, local: bool = False) -> Runner:
    """Make the runner of the engine arguments.

    name     what Spark's own pages call the application
    local    run in this process whatever the arguments say
    """
    if local or arguments.engine == "local":
        return LocalRunner(arguments.parallelism or 2)
    return spark_runner(arguments.master, arguments.remote, name=f"lakeidx {name}", parallelism=arguments.parallelism)


def run_job(work: Callable[[], BaseModel | Mapping[str, Any]]) -> int:
    """Run a job, print its report as JSON on stdout, report to Dagster when it uses Pipes, and return the exit code."""
    pipes: JobPipes | None = None
    print_logs(os.environ.get("LAKEIDX_LOG_FORMAT"))
    try:
        with job_pipes() as pipes:
            try:
                report = work()
            except LakeIdxError as error:
                if pipes is not None:
                    pipes.fail(error)
                raise
            text = report.model_dump_json(indent=1) if isinstance(report, BaseModel) else json.dumps(report, indent=1)
            if pipes is not None:
                pipes.report(json.loads(text))
    except LakeIdxError as error:
        print(f"{error.kind}: {error}", file=sys.stderr)
        return 1 if isinstance(error, RejectedRowsError) else 2
    print(text)
    return 0


def stage_parser(description: str, *, batch: bool = True) -> argparse.ArgumentParser:
    """Make the parser of a stage.

    batch   whether it needs one
    """
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--pipeline", type=Path, required=not pipes_asked(), help="pipeline file of the table")
    parser.add_argument("--batch-id", required=batch, help="id of the batch; the same for every stage")
    parser.add_argument(
        "--overwrite", choices=("partitions", "table"), help="replace instead of upsert; give it to every stage"
    )
    add_engine_arguments(parser)
    _add_pipes_arguments(parser)
    return parser


def open_table(arguments: argparse.Namespace, *, create: bool = False) -> tuple[PipelineConfig, TableHandle]:
    """Open the pipeline file and its table; stores read their credentials from the environment (AWS_*)."""
    config = _pipeline_of(arguments)
    if create:
        return config, ensure_table(
            config.uri, config.spec(), policy=config.schema_changes, landed=config.lands_columns,
            create_branch=config.create_branch,
        )  # fmt: skip
    table = TableHandle.open(config.uri)
    return config, table


def _pipeline_of(arguments: argparse.Namespace) -> PipelineConfig:
    """Return the pipeline of the file, or the one that the asset has sent."""
    if arguments.pipeline is not None:
        return load_pipeline(arguments.pipeline)
    pipeline = sent("pipeline")
    if pipeline is None:
        raise InvalidInputError("give --pipeline: the request through Dagster Pipes has none")
    return PipelineConfig.model_validate(pipeline)


def make_batch(arguments: argparse.Namespace, table: TableHandle) -> BatchContext:
    """Make the context of the batch; Spark starts with the first task, for a stage that has finished before needs none."""
    runner = LazyRunner(lambda: make_runner(arguments, arguments.batch_id))
    limits = _pipeline_of(arguments).limits or None
    mode = arguments.overwrite
    return make_context(table.metadata, arguments.batch_id, runner=runner, overwrite=mode, limits=limits)
