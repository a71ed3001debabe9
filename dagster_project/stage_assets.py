"""The assets of a batch: ingest, bucket_assignment, index_write, commit. Each calls its stage and maps the report.

================== ======================================= ==========================================================
asset              runs                                    when it is run again
================== ======================================= ==========================================================
ingest             `run_ingest` on files not committed yet gives its report; files that are new make another batch
bucket_assignment  `run_assignment`                        gives its report
index_write        `run_index_write`                       gives its report
commit             `run_commit`                            finds its snapshot and changes nothing
================== ======================================= ==========================================================

Dagster reads the annotations of asset functions when they are defined, so they are real types here, not postponed texts.
"""

from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from dagster_project.failures import failures_explained, retry_policy
from dagster_project.names import LANDING, asset_key, key_prefix, partitions_of, pool_name
from dagster_project.report_metadata import (
    assign_metadata,
    column_schema,
    commit_metadata,
    ingest_metadata,
    table_metadata,
    write_metadata,
)
from dagster_project.resources import SparkResource, StoreResource, TableResource
from dagster_project.warm import begin_warm_up
from lakeidx.pipeline.artifacts import AssignReport, IngestReport
from lakeidx.pipeline.assign import run_assignment
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.evidence import read_reports
from lakeidx.pipeline.ingest import run_ingest
from lakeidx.pipeline.partitions import (
    current_batch,
    files_of_partitions,
    mark_committed,
    plan_batch,
    set_current_batch,
)
from lakeidx.pipeline.publish import run_commit
from lakeidx.pipeline.runner import LocalRunner
from lakeidx.pipeline.upsert import make_context
from lakeidx.pipeline.write import run_index_write
from lakeidx.table.view import load_view


class IngestConfig(dg.Config):
    """What a run may ask of an ingest."""

    overwrite: Literal["no", "partitions", "table"] = Field(
        default="no",
        description="no: upsert what was not committed yet. partitions, table: take all files of the partition again and replace "
        "the table partitions they have rows for, or the whole table",
    )


@dataclass(frozen=True, slots=True)
class StageBatch:
    """A batch as a stage after ingest finds it; `reports_gone` when it was committed and its staging was cleaned since."""

    context: BatchContext
    reports_gone: bool


def open_batch(
    pipeline: PipelineConfig, keys: list[str], tables: TableResource, spark: SparkResource | None = None
) -> StageBatch:
    """The batch that partitions are working on."""
    table = tables.open(pipeline)
    current = current_batch(table.store, table.paths, keys)
    runner = spark.runner() if spark else LocalRunner()
    context = make_context(table.metadata, current.batch_id, runner=runner, overwrite=current.overwrite)
    return StageBatch(context, current.committed and context.files.read(IngestReport) is None)


def gone(batch: StageBatch) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """What a stage says of a batch that was committed long ago."""
    return dg.MaterializeResult(
        metadata={"lakeidx/batch_id": batch.context.files.batch_id, "lakeidx/already_committed": True}
    )


def backfill_policy(pipeline: PipelineConfig) -> dg.BackfillPolicy:
    """One run for a whole backfill (one assignment, one shuffle, one snapshot), or runs of so many partitions each."""
    per_run = pipeline.partitions.per_run
    return dg.BackfillPolicy.single_run() if per_run is None else dg.BackfillPolicy.multi_run(per_run)


def build_stage_assets(pipeline: PipelineConfig) -> list[dg.AssetsDefinition]:
    """The four stages of a batch as assets, one after another."""
    common: dict[str, Any] = {
        "key_prefix": key_prefix(pipeline),
        "partitions_def": partitions_of(pipeline),
        "group_name": key_prefix(pipeline)[1],
        "owners": list(pipeline.owners) or None,
        "tags": pipeline.tags,
        "pool": pool_name(pipeline),
        "retry_policy": retry_policy(pipeline),
        "backfill_policy": backfill_policy(pipeline),
    }
    # With the automation sensor on, an ingest that was run by itself pulls the stages after it along; runs of the whole job
    # leave nothing to do. The sensor is off until somebody turns it on.
    follows: dict[str, Any] = {**common, "automation_condition": dg.AutomationCondition.eager()}

    @dg.asset(
        name="ingest",
        deps=[asset_key(pipeline, LANDING)],
        kinds={"python", "parquet"},
        description=pipeline.description
        + "\n\nLanding files, cast to the table's schema; rows that cannot be kept are set "
        "aside with their reasons.",
        metadata={"dagster/column_schema": column_schema(pipeline)},
        **common,
    )
    def ingest(
        context: dg.AssetExecutionContext,
        config: IngestConfig,
        store: StoreResource,
        spark: SparkResource,
        tables: TableResource,
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        begin_warm_up()
        with failures_explained():
            table = tables.ensure(pipeline)
            keys = list(context.partition_keys)
            files = files_of_partitions(store.open(pipeline.landing.path), pipeline, keys)
            overwrite = None if config.overwrite == "no" else config.overwrite
            current, chosen = plan_batch(
                table.store,
                table.paths,
                keys,
                files,
                overwrite=overwrite,
                run_id=context.run.root_run_id or context.run.run_id,
            )
            batch = make_context(table.metadata, current.batch_id, runner=spark.runner())
            set_current_batch(table.store, table.paths, keys, current)
            if current.committed and batch.files.read(IngestReport) is None:
                return gone(StageBatch(batch, True))
            report = run_ingest(
                batch.files,
                table.schema,
                [f.path for f in chosen],
                pipeline.landing.options(),
                batch.runner,
                strict=pipeline.strict,
            )
            return dg.MaterializeResult(metadata=ingest_metadata(report, table.store))

    @dg.asset(
        name="bucket_assignment",
        deps=[ingest],
        kinds={"python"},
        description="A bucket for every staged row: the one its key has by the table's hash index, or a place for a new key.",
        **follows,
    )
    def bucket_assignment(
        context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with failures_explained():
            batch = open_batch(pipeline, list(context.partition_keys), tables, spark)
            if batch.reports_gone:
                return gone(batch)
            report = run_assignment(batch.context, batch.context.files.latest_attempt())
            return dg.MaterializeResult(metadata=assign_metadata(report))

    @dg.asset(
        name="index_write",
        deps=[bucket_assignment],
        kinds={"spark", "parquet"},
        description="Level-0 data files and hash index files, through one shuffle of Arrow blocks. Nothing is visible yet.",
        **follows,
    )
    def index_write(
        context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with failures_explained():
            batch = open_batch(pipeline, list(context.partition_keys), tables, spark)
            if batch.reports_gone:
                return gone(batch)
            files = batch.context.files
            report = run_index_write(batch.context, files.latest_attempt())
            return dg.MaterializeResult(metadata=write_metadata(report, files.require(IngestReport)))

    @dg.asset(
        name="commit",
        deps=[index_write],
        kinds={"paimon"},
        description=f"A snapshot of {pipeline.table} that publishes the batch, once.",
        metadata=table_metadata(pipeline),
        **follows,
    )
    def commit(context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with failures_explained():
            batch = open_batch(pipeline, list(context.partition_keys), tables, spark)
            if batch.reports_gone:
                return gone(batch)
            run_commit(batch.context)
            return dg.MaterializeResult(metadata=committed(batch.context))

    return [ingest, bucket_assignment, index_write, commit]


def committed(batch: BatchContext) -> dict[str, Any]:
    """Write down that a batch's files are in the table; figures and pictures of what it did."""
    from dagster_project.table_plots import history_plot, view_plots

    reports = read_reports(batch.files)
    mark_committed(batch.store, batch.paths, reports.ingest.sources, batch.files.batch_id)
    latest = batch.metadata.latest_snapshot()
    partitions = {bytes.fromhex(t.partition) for t in batch.files.require(AssignReport).targets}
    view = load_view(batch.metadata, latest, partitions=partitions)
    paths = [batch.paths.snapshot(i) for i in reports.commit.snapshot_ids]
    return {
        **commit_metadata(reports.commit, reports.ingest, reports.assign, reports.write, paths),
        **view_plots(view),
        **history_plot(batch.metadata, latest),
    }
