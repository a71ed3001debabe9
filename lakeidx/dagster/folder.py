"""All definitions of a folder of pipeline files. Loads without network, Spark or secrets."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from lakeidx.dagster.assets.pipeline_files import build_pipeline_files
from lakeidx.dagster.factory import TableDefinitions, build_feed, build_table, merged_definitions
from lakeidx.dagster.resources import SparkResource, resources_from_environment
from lakeidx.dagster.sensors.failed_runs import build_canceled_run_sensor, build_failed_run_sensor
from lakeidx.pipeline_file.feed import FeedConfig, load_feeds
from lakeidx.pipeline_file.model import PipelineConfig, load_pipelines

log = logging.getLogger(__name__)

# Partitioned checks and backfill policies are used on purpose; the pinned version is the one they are tested with.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)


def build_definitions(
    folder: Path, *, spark: SparkResource | None = None, resources: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """Build the definitions of all pipelines in a folder; a bad file shows as a failed check and in the log, the others load.

    spark       where stages run; None = what the environment says
    resources   those of the pipelines, when other definitions have them, too
    """
    pipelines, errors = load_pipelines(folder)
    feeds, bad_feeds = load_feeds(folder)
    left_out = {file.name: error.problems for file, error in (errors | bad_feeds).items()}
    if not folder.is_dir():
        left_out[str(folder.resolve())] = ("there is no such folder",)
    tables: list[TableDefinitions] = []
    taken: dict[str, str] = {}
    files: dict[Path, PipelineConfig | FeedConfig] = {**pipelines, **feeds}
    for file, described in files.items():
        try:
            made = build_feed(described, file) if isinstance(described, FeedConfig) else build_table(described, file)
        except dg.DagsterError as error:
            left_out[file.name] = (str(error),)
            continue
        # A feed may have got a table that another file describes: Dagster would load none of them.
        shared = next((name for name in made.told if name in taken), None)
        if shared is not None:
            left_out[file.name] = (f"{taken[shared]} describes the table {shared} already; leave it to one of them",)
            continue
        taken |= dict.fromkeys(made.told, file.name)
        tables.append(made)
    for name, problems in left_out.items():
        log.error("pipeline file left out: %s: %s", folder / name, "; ".join(problems))
    told = {name: alerts for t in tables for name, alerts in t.told.items()}
    found = build_pipeline_files(f"Pipeline files in {folder}, one for each table.", len(tables), left_out)
    of_runs = [build_failed_run_sensor(tables=told.get), build_canceled_run_sensor()]
    own = dg.Definitions(
        sensors=of_runs,
        # One process per run: one Spark session, one import of what stages need.
        executor=dg.in_process_executor,
        metadata={
            "lakeidx/pipelines": len(tables),
            **{f"lakeidx/left_out/{name}": "; ".join(problems) for name, problems in left_out.items()},
        },
    )
    return dg.Definitions.merge(
        merged_definitions(tables, resources or resources_from_environment(spark=spark)), found, own
    )
