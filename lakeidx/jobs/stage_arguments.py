"""The arguments that the stage entries share, and the batch they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from lakeidx.batch.context import BatchContext
from lakeidx.batch.upsert import make_context
from lakeidx.jobs.engine_arguments import add_engine_arguments, make_runner
from lakeidx.maintenance.wanted_schema import ensure_table
from lakeidx.pipeline_file.model import PipelineConfig, load_pipeline
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.lazy_runner import LazyRunner


def stage_parser(description: str) -> argparse.ArgumentParser:
    """Make the parser of a stage."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--pipeline", type=Path, required=True, help="pipeline file of the table")
    parser.add_argument("--batch-id", required=True, help="id of the batch; the same for every stage")
    parser.add_argument(
        "--overwrite", choices=("partitions", "table"), help="replace instead of upsert; give it to every stage"
    )
    add_engine_arguments(parser)
    return parser


def open_table(arguments: argparse.Namespace, *, create: bool = False) -> tuple[PipelineConfig, TableHandle]:
    """Open the pipeline file and its table; stores take their credentials from the environment (AWS_*)."""
    config = load_pipeline(arguments.pipeline)
    if create:
        return config, ensure_table(
            config.uri, config.spec(), policy=config.schema_changes, landed=config.lands_columns
        )
    table = TableHandle.open(config.uri)
    return config, table


def make_batch(arguments: argparse.Namespace, table: TableHandle) -> BatchContext:
    """Make the context of the batch; Spark starts with the first task, for a stage that has finished before needs none."""
    runner = LazyRunner(lambda: make_runner(arguments, arguments.batch_id))
    return make_context(table.metadata, arguments.batch_id, runner=runner, overwrite=arguments.overwrite)
