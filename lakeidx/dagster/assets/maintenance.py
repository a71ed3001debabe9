"""The assets around a table that are not about one batch.

=================  ======================================================  ==============================================
asset              does                                                    is started by
=================  ======================================================  ==============================================
compaction         `run_compaction`: a COMPACT snapshot                    its sensor, cron ``schedules.compaction``
snapshot_expiry    `expire_table`, staging cleaned, orphans on request     cron ``schedules.expiry``
verification       all rules over the whole table                          cron ``schedules.verification``
=================  ======================================================  ==============================================
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from lakeidx.batch.artifacts import staging_root
from lakeidx.batch.landed_files import LEDGER_DIR
from lakeidx.dagster.assets.checks import Step, StepEvents, build_specs, check_results, materialized, report_checks
from lakeidx.dagster.assets.expectations import expectation_specs, table_expectation_results
from lakeidx.dagster.assets.table import table_observation
from lakeidx.dagster.failures import failures_explained, retry_policy
from lakeidx.dagster.metadata.reports import SAMPLE_ROWS, records_table
from lakeidx.dagster.metadata.table_plots import hash_plot, history_plot, view_plots
from lakeidx.dagster.names import (
    COMPACTION,
    SNAPSHOT_EXPIRY,
    TABLE,
    VERIFICATION,
    asset_key,
    key_prefix,
    stages_group,
    upkeep_pool_name,
)
from lakeidx.dagster.resources import TableResource, config_fields, resource_keys, resources_in
from lakeidx.errors import NotFoundError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.table_checks import table_results, table_rules, verify_whole
from lakeidx.quality.file_rules import check_orphans
from lakeidx.quality.result import RuleResult
from lakeidx.quality.whole_table import Verified
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import load_newest

# What upkeep does is imported where it is done: a run of a batch loads these definitions, too.
if TYPE_CHECKING:
    from lakeidx.api.table import Table
    from lakeidx.maintenance.compaction import CompactionReport
    from lakeidx.table.expiration.expire import ExpireReport


class CompactionConfig(dg.Config):
    """Run config of a compaction."""

    full: bool = Field(default=False, description="merge every bucket into its top level")
    dry_run: bool = Field(default=False, description="show what would be compacted, change nothing")


class ExpiryConfig(dg.Config):
    """Run config of an expiry."""

    dry_run: bool = Field(default=False, description="show what would be deleted, change nothing")
    clean_staging: bool = Field(
        default=True, description="also remove staged rows of finished and of abandoned batches"
    )
    remove_orphans: bool = Field(default=False, description="also remove old files that nothing refers to")


@dataclass(frozen=True, slots=True)
class Upkeep(Step):
    """Work on a table around its batches."""

    table: "Table"
    config: Any


def build_upkeep_asset(
    pipeline: PipelineConfig,
    name: str,
    work: Callable[[Upkeep], StepEvents],
    *,
    config: type[dg.Config] | None = None,
    **said: Any,
) -> dg.AssetsDefinition:
    """Build an asset beside a table, whose step does nothing before the first batch has made the table.

    config   run config of the work
    said     what the asset is, for Dagster
    """

    @dg.asset(
        name=name,
        key_prefix=key_prefix(pipeline),
        group_name=stages_group(pipeline),
        owners=list(pipeline.owners) or None,
        tags=pipeline.tags,
        pool=upkeep_pool_name(pipeline),
        retry_policy=retry_policy(pipeline),
        deps=[asset_key(pipeline, TABLE)],
        config_schema=None if config is None else config_fields(config),
        required_resource_keys=resource_keys(pipeline),
        **said,
    )
    def upkeep(context: dg.AssetExecutionContext) -> StepEvents:
        with failures_explained(context):
            resources = resources_in(context, pipeline)
            table = _open_if_made(pipeline, resources.tables)
            if table is None:
                note = "the table does not exist yet: the first batch makes it"
                context.log.info(note)
                yield materialized(context, {"lakeidx/note": note})
                return
            given = None if config is None else config(**context.op_execution_context.op_config)
            yield from work(Upkeep(pipeline, context, *resources, table, given))

    found: dg.AssetsDefinition = upkeep
    return found


def compaction_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of the buckets that a compaction has rewritten."""
    return build_specs(pipeline, COMPACTION, table_rules(pipeline))


def verification_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of the whole table."""
    rules = build_specs(pipeline, VERIFICATION, [*table_rules(pipeline), "orphans_below_limit"])
    return [*rules, *expectation_specs(pipeline, VERIFICATION, "table")]


def _open_if_made(pipeline: PipelineConfig, tables: TableResource) -> "Table | None":
    """Open a table; None when no batch has made it yet.

    errors   NotFoundError for one that has had batches, or that other programs write
    """
    try:
        return tables.open(pipeline)
    except NotFoundError:
        ledger = f"{staging_root(pipeline.paths)}/{LEDGER_DIR}"
        if pipeline.landing.path == pipeline.warehouse or tables.store.open(pipeline.uri).list(ledger):
            raise
        return None


def build_upkeep_assets(pipeline: PipelineConfig) -> list[dg.AssetsDefinition]:
    """Build compaction, snapshot expiry and verification of a table."""
    return [
        build_upkeep_asset(
            pipeline,
            COMPACTION,
            _compact,
            config=CompactionConfig,
            kinds={"spark", "parquet"},
            description="Sorted runs of buckets that have too many are merged; deletes are dropped at the top level.",
        ),
        build_upkeep_asset(
            pipeline,
            SNAPSHOT_EXPIRY,
            _expire,
            config=ExpiryConfig,
            kinds={"paimon"},
            description="Partitions and snapshots past their time go, with files only they needed; idle ones are done.",
        ),
        build_upkeep_asset(
            pipeline,
            VERIFICATION,
            _verify,
            kinds={"python"},
            description="Reads and checks every hash, key and file of the newest snapshot, whatever runs have checked.",
        ),
    ]


def _compact(step: Upkeep) -> StepEvents:
    from lakeidx.maintenance.compaction import CompactionReport, run_compaction

    pipeline, context, table, spark = step.pipeline, step.context, step.table, step.spark
    wanted = step.config.model_dump()
    flags = [f"--{name.replace('_', '-')}" for name, on in wanted.items() if on]
    done = spark.submitted(context, COMPACTION, [pipeline.uri, *flags], pipeline)
    if done is None:
        report = run_compaction(table.metadata, spark.runner(pipeline.uri), **wanted)
    else:
        report = CompactionReport.model_validate(done)
    context.log_event(table_observation(pipeline, table.metadata))
    yield materialized(context, _compaction_metadata(report))
    buckets = {(bytes.fromhex(str(p["partition"])), int(p["bucket"])) for p in report.picked}
    touched = [(partition.hex(), bucket) for partition, bucket in sorted(buckets)]
    checked = spark.submitted(context, "checks", [], pipeline, buckets=touched) if touched else None
    found = Verified.from_json(checked) if checked else table_results(pipeline, table, buckets=buckets)
    results = check_results(pipeline, COMPACTION, found.results)
    yield from report_checks(context, compaction_checks(pipeline), results)


def _compaction_metadata(report: "CompactionReport") -> dict[str, Any]:
    """Return the metrics of a compaction, and the first buckets that were picked."""
    out: dict[str, Any] = {
        f"lakeidx/{name}": value
        for name, value in report.model_dump().items()
        if isinstance(value, (bool, int, float)) and not isinstance(value, tuple)
    }
    if report.snapshot_ids:
        out["lakeidx/snapshot_id"] = report.snapshot_ids[-1]
    if report.picked:
        out["lakeidx/picked"] = records_table(report.picked[:SAMPLE_ROWS])
    return out


def _expire(step: Upkeep) -> StepEvents:
    from lakeidx.maintenance.lookup_store import clean_lookup_files
    from lakeidx.maintenance.partitions.done import run_partition_upkeep
    from lakeidx.maintenance.staging_cleanup import clean_orphans, clean_staging
    from lakeidx.table.expiration.expire import expire_table

    table, config, now_ms = step.table, step.config, int(time.time() * 1000)
    kept = run_partition_upkeep(table, dry_run=config.dry_run)
    report = expire_table(table.metadata, table.schema, now_ms=now_ms, dry_run=config.dry_run)
    metadata = _expiry_metadata(report)
    for name, partitions in (("expired", kept.expired), ("done", kept.done), ("left", kept.notes)):
        if partitions:
            metadata[f"lakeidx/partitions_{name}"] = list(partitions)
    lookup = clean_lookup_files(table.metadata, dry_run=config.dry_run)
    metadata["lakeidx/lookup_files_deleted"] = len(lookup)
    if config.clean_staging:
        staging = clean_staging(table.metadata, now_ms=now_ms, dry_run=config.dry_run)
        metadata["lakeidx/staging_files_deleted"] = len(staging.files)
        metadata["lakeidx/staging_bytes_deleted"] = staging.bytes
    if config.remove_orphans:
        orphans = clean_orphans(table.metadata, now_ms=now_ms, dry_run=config.dry_run)
        metadata["lakeidx/orphans_deleted"] = len(orphans.files)
        metadata["lakeidx/orphan_bytes_deleted"] = orphans.bytes
    step.context.log_event(table_observation(step.pipeline, table.metadata))
    yield materialized(step.context, metadata)


def _expiry_metadata(report: "ExpireReport") -> dict[str, Any]:
    """Return the metrics of an expiry, and the first deleted files."""
    out: dict[str, Any] = {
        "lakeidx/dry_run": report.dry_run,
        "lakeidx/snapshots_expired": len(report.snapshots),
        "lakeidx/tags_expired": len(report.tags),
        "lakeidx/consumers_expired": len(report.consumers),
        "lakeidx/files_deleted": len(report.files),
        "lakeidx/bytes_deleted": report.bytes,
    }
    if report.earliest is not None:
        out["lakeidx/earliest_snapshot_id"] = report.earliest
    if report.files:
        shown = [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in report.files[:SAMPLE_ROWS]]
        out["lakeidx/files"] = records_table(shown)
    if report.notes:
        out["lakeidx/notes"] = dg.MetadataValue.md("\n".join(f"- {n}" for n in report.notes))
    return out


def _verify(step: Upkeep) -> StepEvents:
    pipeline, context, table, spark = step.pipeline, step.context, step.table, step.spark
    started = time.monotonic()
    report = spark.submitted(context, "checks", [], pipeline)
    if report is None:

        def log_groups(done: int, total: int) -> None:
            context.log.info(f"verification: {done} of {total} groups of partitions")

        found = verify_whole(pipeline, table, runner=spark.runner(pipeline.uri), progress=log_groups)
    else:
        found = Verified.from_json(report)
    found = replace(found, results=(*found.results, count_orphans(pipeline, table, int(time.time() * 1000))))
    results = list(check_results(pipeline, VERIFICATION, found.results))
    results += table_expectation_results(pipeline, VERIFICATION, table, step.store)
    seconds, view = time.monotonic() - started, load_newest(table.metadata)
    metadata = {
        "dagster/row_count": found.keys,
        "lakeidx/snapshot_id": -1 if found.snapshot_id is None else found.snapshot_id,
        "lakeidx/buckets": found.buckets,
        "lakeidx/data_files": found.data_files,
        "lakeidx/index_hashes": found.index_hashes,
        "lakeidx/seconds": round(seconds, 6),
        **view_plots(view),
        **hash_plot(found.hash_counts),
        **history_plot(table.metadata, view.snapshot),
    }
    yield materialized(context, metadata)
    yield from report_checks(context, verification_checks(pipeline), results)


def count_orphans(pipeline: PipelineConfig, table: TableHandle, now_ms: int) -> RuleResult:
    """Count old unreferenced files and compare with the pipeline's limit."""
    from lakeidx.maintenance.staging_cleanup import clean_orphans

    found = clean_orphans(table.metadata, now_ms=now_ms, dry_run=True).files
    return check_orphans({f.path: f.size for f in found}, max_files=pipeline.checks.orphan_files)
