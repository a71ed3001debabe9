"""The table as an asset: what other teams depend on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import BatchContext
from lakeidx.dagster.metadata.changes import consumer_metadata
from lakeidx.dagster.metadata.overview import size_metadata, table_description, table_page
from lakeidx.dagster.metadata.reports import column_schema, run_metadata, state_metadata, table_metadata
from lakeidx.dagster.names import TABLE, asset_key, table_group
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import load_newest

#: Stages run when what is before them was materialized, of any partition, not of the newest alone; with the automation sensor on.
FOLLOWS = dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window())


def commit_spec(pipeline: PipelineConfig, shared: Mapping[str, Any]) -> dg.AssetSpec:
    """Describe the stage that publishes a batch; its step materializes the table, too."""
    after_checks = {"lakeidx/publish": "after_checks"} if pipeline.publish == "after_checks" else {}
    return dg.AssetSpec(
        asset_key(pipeline, "commit"),
        deps=[asset_key(pipeline, "index_write")],
        kinds={"paimon"},
        description=f"A snapshot of {pipeline.table} that publishes the batch, once.{_when_published(pipeline)}",
        automation_condition=FOLLOWS,
        skippable=True,
        **{**shared, "tags": {**pipeline.tags, **after_checks}},
    )


def _when_published(pipeline: PipelineConfig) -> str:
    limits = ", ".join(f"{kind} {bound}" for kind, bound in pipeline.limits.items())
    beyond = f" A batch beyond {limits} is held." if limits else ""
    if pipeline.publish != "after_checks":
        return beyond
    return (
        f" The checks of the table are judged before it: readers do not see a batch that fails one that blocks.{beyond}"
    )


def table_spec(pipeline: PipelineConfig, shared: Mapping[str, Any]) -> dg.AssetSpec:
    """Return the table as an asset: what other assets depend on, whoever wrote the newest snapshot."""
    return dg.AssetSpec(
        asset_key(pipeline, TABLE),
        deps=[asset_key(pipeline, "commit")],
        kinds={"paimon", "table"},
        description=table_description(pipeline),
        metadata={
            **table_metadata(pipeline.table, pipeline.uri, pipeline.first_schema),
            **table_page(pipeline),
        },
        automation_condition=FOLLOWS,
        freshness_policy=_freshness_policy(pipeline),
        skippable=True,
        **{**shared, "group_name": table_group(pipeline)},
    )


def _freshness_policy(pipeline: PipelineConfig) -> dg.FreshnessPolicy | None:
    """Return the freshness policy: the age of the newest batch the pipeline file allows."""
    wanted = pipeline.freshness
    if wanted is None:
        return None
    warn = None if wanted.warn_hours is None else timedelta(hours=wanted.warn_hours)
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=wanted.fail_hours), warn_window=warn)


def table_state(
    pipeline: PipelineConfig, batch: BatchContext, done: BatchResult | None
) -> tuple[dict[str, Any], dg.DataVersion | None]:
    """Return the table as the newest snapshot has it; its data version, which is that snapshot.

    done   what the run did; None when it found the batch committed
    """
    view, schema = load_newest(batch.metadata), batch.metadata.latest_schema()
    snapshot = view.snapshot
    metadata = {
        **run_metadata(done),
        **size_metadata(view),
        **_columns_now(pipeline, schema),
        **state_metadata(batch.metadata, view),
        **consumer_metadata(batch.metadata, snapshot),
        "lakeidx/batch_id": batch.files.batch_id,
    }
    version = None if snapshot is None else dg.DataVersion(snapshot.identity)
    return metadata, version


def _columns_now(pipeline: PipelineConfig, schema: TableSchema) -> dict[str, Any]:
    """Return the columns of a table where they are no longer those that its definition shows."""
    columns = column_schema(schema)
    return {} if columns == column_schema(pipeline.first_schema) else {"dagster/column_schema": columns}


def table_observation(pipeline: PipelineConfig, metadata: TableMetadata) -> dg.AssetObservation:
    """Return what is seen of the table when something else than its batches has made the newest snapshot."""
    view = load_newest(metadata)
    facts = table_metadata(pipeline.table, pipeline.uri, metadata.latest_schema())
    tags = {} if view.snapshot is None else {"dagster/data_version": view.snapshot.identity}
    state = {**size_metadata(view), **facts, **state_metadata(metadata, view)}
    return dg.AssetObservation(asset_key(pipeline, TABLE), metadata=state, tags=tags)
