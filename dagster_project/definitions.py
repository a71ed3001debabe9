"""All definitions: the assets of every table that a file in pipelines/ describes. Loads without network, Spark or secrets."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import dagster as dg

from dagster_project.resources import SparkResource, StoreResource, TableResource
from dagster_project.table_assets import asset_keys, build_stage_assets
from lakeidx.pipeline.config import PipelineConfig, load_pipelines

log = logging.getLogger(__name__)
PIPELINES = Path(os.environ.get("LAKEIDX_PIPELINES", Path(__file__).parent.parent / "pipelines"))


def batch_job_name(config: PipelineConfig) -> str:
    """Name of the job that takes a batch through its stages."""
    return f"{config.database}__{config.table_name}__batch"


def build_definitions(folder: Path) -> dg.Definitions:
    """Definitions of all pipelines in a folder; a bad file is logged with its line, the others load."""
    configs, errors = load_pipelines(folder)
    for error in errors.values():
        log.error("pipeline file left out: %s", error)
    assets = []
    jobs = []
    for config in configs.values():
        assets += build_stage_assets(config)
        jobs.append(dg.define_asset_job(batch_job_name(config), selection=asset_keys(config)))
    store = StoreResource()
    return dg.Definitions(
        assets=assets,
        jobs=jobs,
        resources={"store": store, "spark": SparkResource(), "tables": TableResource(store=store)},
        executor=dg.in_process_executor,
    )


defs = build_definitions(PIPELINES)
