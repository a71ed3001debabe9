"""The assets of one table, made from its pipeline file: ingest, bucket_assignment, index_write, commit.

Dagster reads the annotations of asset functions when they are defined, so they are real types here, not postponed texts.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dagster_project.resources import SparkResource, StoreResource, TableResource
from lakeidx.pipeline.artifacts import AssignReport, IngestReport, WriteReport
from lakeidx.pipeline.assign import run_assignment
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.ingest import run_ingest
from lakeidx.pipeline.partitions import batch_id_of, current_batch, files_of_partition, set_current_batch
from lakeidx.pipeline.publish import run_commit
from lakeidx.pipeline.runner import LocalRunner
from lakeidx.pipeline.upsert import make_context
from lakeidx.pipeline.write import run_index_write

STAGES = ("ingest", "bucket_assignment", "index_write", "commit")


def key_prefix(config: PipelineConfig) -> list[str]:
    """Asset key prefix of a table: database, table."""
    return [config.database, config.table_name]


def files_partitions(config: PipelineConfig) -> dg.DynamicPartitionsDefinition:
    """One partition per landing file."""
    return dg.DynamicPartitionsDefinition(name=f"{config.database}__{config.table_name}__files")


def build_stage_assets(config: PipelineConfig) -> list[dg.AssetsDefinition]:
    """The four stages of a batch as assets, one after another."""
    common: dict[str, Any] = {
        "key_prefix": key_prefix(config),
        "partitions_def": files_partitions(config),
        "group_name": config.table_name,
        "owners": list(config.owners) or None,
        "tags": config.tags,
        "pool": f"lakeidx_{config.database}_{config.table_name}",
    }

    @dg.asset(
        name="ingest", kinds={"python", "parquet"}, description="Landing files, cast to the table's schema.", **common
    )
    def ingest(
        context: dg.AssetExecutionContext, store: StoreResource, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult:
        table = tables.ensure(config)
        keys = list(context.partition_keys)
        files = [f for k in keys for f in files_of_partition(store.open(config.landing.path), config, k)]
        batch_id = batch_id_of(keys, files)
        batch = make_context(table.metadata, batch_id, runner=spark.runner())
        report = run_ingest(
            batch.files,
            table.schema,
            [f.path for f in files],
            config.landing.options(),
            batch.runner,
            strict=config.strict,
        )
        set_current_batch(table.store, table.paths, keys, batch_id)
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": report.rows_staged,
                "lakeidx/batch_id": batch_id,
                "lakeidx/rows_in": report.rows_in,
                "lakeidx/rows_rejected": report.rows_rejected,
                "lakeidx/seconds": report.seconds,
            }
        )

    def open_batch(
        context: dg.AssetExecutionContext, tables: TableResource, spark: SparkResource | None
    ) -> BatchContext:
        table = tables.open(config)
        batch_id = current_batch(table.store, table.paths, list(context.partition_keys))
        return make_context(table.metadata, batch_id, runner=spark.runner() if spark else LocalRunner())

    @dg.asset(
        name="bucket_assignment",
        deps=[ingest],
        kinds={"python"},
        description="A bucket for every staged row, by the table's hash index.",
        **common,
    )
    def bucket_assignment(
        context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult:
        batch = open_batch(context, tables, spark)
        report = run_assignment(batch, batch.files.latest_attempt())
        return dg.MaterializeResult(metadata=assign_metadata(report))

    @dg.asset(
        name="index_write",
        deps=[bucket_assignment],
        kinds={"spark", "parquet"},
        description="Level-0 data files and hash index files, through one shuffle of Arrow blocks.",
        **common,
    )
    def index_write(
        context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult:
        batch = open_batch(context, tables, spark)
        report = run_index_write(batch, batch.files.latest_attempt())
        return dg.MaterializeResult(metadata=write_metadata(report))

    @dg.asset(
        name="commit",
        deps=[index_write],
        kinds={"paimon"},
        description="A snapshot that publishes the batch, once.",
        **common,
    )
    def commit(context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource) -> dg.MaterializeResult:
        batch = open_batch(context, tables, spark)
        report = run_commit(batch)
        ingested = batch.files.require(IngestReport)
        assigned = batch.files.require(AssignReport, attempt=report.attempt)
        return dg.MaterializeResult(
            metadata={
                "dagster/partition_row_count": ingested.rows_staged,
                "dagster/table_name": config.table,
                "dagster/uri": config.uri,
                "lakeidx/snapshot_id": report.snapshot_ids[-1] if report.snapshot_ids else -1,
                "lakeidx/already": report.already,
                "lakeidx/inserts": assigned.inserts,
                "lakeidx/updates": assigned.updates,
                "lakeidx/seconds": report.seconds,
            }
        )

    return [ingest, bucket_assignment, index_write, commit]


def assign_metadata(report: AssignReport) -> dict[str, Any]:
    """Figures of an assignment."""
    return {
        "dagster/row_count": report.rows,
        "lakeidx/inserts": report.inserts,
        "lakeidx/updates": report.updates,
        "lakeidx/deletes": report.deletes,
        "lakeidx/buckets": len(report.targets),
        "lakeidx/new_buckets": report.new_buckets,
        "lakeidx/seconds": report.seconds,
    }


def write_metadata(report: WriteReport) -> dict[str, Any]:
    """Figures of a write."""
    return {
        "dagster/row_count": report.rows_written,
        "lakeidx/data_files": report.data_files,
        "lakeidx/data_bytes": report.data_bytes,
        "lakeidx/index_files": report.index_files,
        "lakeidx/index_bytes": report.index_bytes,
        "lakeidx/seconds": report.seconds,
    }


def asset_keys(config: PipelineConfig, stages: Sequence[str] = STAGES) -> list[dg.AssetKey]:
    """Keys of a table's stages."""
    return [dg.AssetKey([*key_prefix(config), s]) for s in stages]
