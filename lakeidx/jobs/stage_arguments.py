"""The arguments that the stage entries share, and the batch they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from lakeidx.batch.context import BatchContext
from lakeidx.batch.upsert import make_context
from lakeidx.errors import InvalidInputError
from lakeidx.jobs.engine_arguments import add_engine_arguments, add_pipes_arguments, make_runner
from lakeidx.jobs.pipes import pipes_asked, sent
from lakeidx.maintenance.wanted_schema import ensure_table
from lakeidx.pipeline_file.model import PipelineConfig, load_pipeline
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.lazy_runner import LazyRunner


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
    add_pipes_arguments(parser)
    return parser


def open_table(arguments: argparse.Namespace, *, create: bool = False) -> tuple[PipelineConfig, TableHandle]:
    """Open the pipeline file and its table; stores read their credentials from the environment (AWS_*)."""
    config = _pipeline_of(arguments)
    if create:
        return config, ensure_table(
            config.uri, config.spec(), policy=config.schema_changes, landed=config.lands_columns
        )
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
    return make_context(table.metadata, arguments.batch_id, runner=runner, overwrite=arguments.overwrite)
