"""The assets of a batch: ingest, bucket_assignment, index_write, commit. Each calls its stage and maps the report.

================== ======================================= ==========================================================
asset              runs                                    when it is run again
================== ======================================= ==========================================================
ingest             `ingest_landing` on files not committed gives its report; files that are new make another batch
bucket_assignment  `run_bucket_assignment`                 gives its report
index_write        `write_attempt`                         gives its report
commit             `commit_batch`                          finds its snapshot and changes nothing
the table          by the step of commit                   is materialized again with the newest snapshot
================== ======================================= ==========================================================

Dagster reads the annotations of asset functions when they are defined, so they are real types here, not postponed texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakeidx.batch.artifacts import BucketAssignmentReport, IndexWriteReport, IngestReport, SourceFile
from lakeidx.batch.committed_batch import BatchReports, batch_commits, read_reports
from lakeidx.batch.context import BatchContext
from lakeidx.batch.landed_files import mark_committed
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.rerun import still_counts
from lakeidx.batch.upsert import commit_batch, make_context, write_attempt
from lakeidx.dagster.assets.checks import (
    REJECTED,
    StepEvents,
    build_specs,
    check_results,
    materialized,
    rejected_result,
    report_checks,
    together,
)
from lakeidx.dagster.assets.expectations import (
    expectation_specs,
    landed_expectation_results,
)
from lakeidx.dagster.assets.publish import PublishChecks, decide_by_tag, observe_held, released_specs, table_results_of
from lakeidx.dagster.assets.table import FOLLOWS, commit_spec, table_spec, table_state
from lakeidx.dagster.expectations.set_aside import row_judge
from lakeidx.dagster.failures import failures_explained, retry_policy
from lakeidx.dagster.metadata.changes import changelog_metadata
from lakeidx.dagster.metadata.reports import (
    assign_metadata,
    column_schema,
    commit_metadata,
    ingest_metadata,
    unsaid,
    write_metadata,
)
from lakeidx.dagster.names import (
    COMMIT_STEP,
    LANDING,
    TABLE,
    asset_key,
    key_prefix,
    partitions_of,
    pool_name,
    stages_group,
    writer_of_files,
)
from lakeidx.dagster.preload import preload_imports
from lakeidx.dagster.resources import SparkResource, StoreResource, TableResource, resources_of
from lakeidx.errors import BatchHeldError, InvalidInputError, RejectedRowsError
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.maintenance.landed_columns import ingest_landing
from lakeidx.pipeline_file.batch_checks import batch_counts, commit_rules
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import (
    current_batch,
    files_of_partitions,
    plan_batch,
    set_current_batch,
)
from lakeidx.quality import check_rows_accounted
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner


class IngestConfig(dg.Config):
    """Run config of an ingest."""

    overwrite: Literal["no", "partitions", "table"] = Field(
        default="no",
        description="no: upsert files that are not committed yet. partitions, table: read all files of the partition again and "
        "replace the table partitions they have rows for, or the whole table",
    )


@dataclass(frozen=True, slots=True)
class StageBatch:
    """A batch as a stage finds it; `reports_gone` when it was committed and its staging was cleaned since."""

    context: BatchContext
    reports_gone: bool
    committed: bool


def chosen_keys(context: dg.AssetExecutionContext) -> list[str]:
    """Return the partitions of a run.

    errors   InvalidInputError for a run without any, which a job that is launched by its name alone makes
    """
    if context.has_partition_key or context.has_partition_key_range:
        return list(context.partition_keys)
    raise InvalidInputError(
        "the run has no partition, and partitions name the landing files that it loads: choose some in the UI, launch"
        " with --partition, or leave it to the landing sensor, which adds a partition for each new file"
    )


def _open_batch(
    pipeline: PipelineConfig,
    context: dg.AssetExecutionContext,
    tables: TableResource,
    spark: SparkResource | None = None,
) -> StageBatch:
    """Return the batch that the partitions of a run are working on.

    errors   see `chosen_keys`
    """
    keys, table = chosen_keys(context), tables.open(pipeline)
    current = current_batch(table.store, table.paths, keys)
    runner = spark.runner(pipeline.uri) if spark else LocalRunner()
    limits = pipeline.limits or None
    batch = make_context(table.metadata, current.batch_id, runner=runner, overwrite=current.overwrite, limits=limits)
    return StageBatch(batch, current.committed and batch.files.read(IngestReport) is None, current.committed)


def ingest_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of a batch's rows, which are staged and not yet in the table."""
    return [*build_specs(pipeline, "ingest", [REJECTED]), *expectation_specs(pipeline, "ingest", "landed")]


def assignment_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of a batch that has its buckets: every landed row is accounted for."""
    return build_specs(pipeline, "bucket_assignment", ["batch_rows_accounted"])


def commit_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of the table after a batch, or before it is published: index and data agree in every bucket it touches."""
    rules = together(commit_rules(pipeline))
    specs = [*build_specs(pipeline, TABLE, rules), *expectation_specs(pipeline, TABLE, "batches")]
    return specs + (expectation_specs(pipeline, TABLE, "table") if pipeline.publish == "after_checks" else [])


def _already_committed(batch: StageBatch) -> dict[str, Any]:
    """Return the metadata of a stage whose batch was committed before."""
    return {"lakeidx/batch_id": batch.context.files.batch_id, "lakeidx/already_committed": True}


def _backfill_policy(pipeline: PipelineConfig) -> dg.BackfillPolicy:
    """Return the policy of one run for a whole backfill (one assignment, one shuffle, one snapshot), or runs of so many
    partitions each.
    """
    per_run = pipeline.partitions.per_run
    return dg.BackfillPolicy.single_run() if per_run is None else dg.BackfillPolicy.multi_run(per_run)


def build_stage_assets(pipeline: PipelineConfig) -> list[dg.AssetsDefinition]:
    """Build the four stages of a batch as assets, one after another."""
    common: dict[str, Any] = {
        "key_prefix": key_prefix(pipeline),
        "partitions_def": partitions_of(pipeline),
        "group_name": stages_group(pipeline),
        "owners": list(pipeline.owners) or None,
        "tags": pipeline.tags,
        "pool": pool_name(pipeline),
        "retry_policy": retry_policy(pipeline),
        "backfill_policy": _backfill_policy(pipeline),
    }
    # With the automation sensor on, an ingest that was run by itself pulls the stages after it along; runs of the whole job
    # leave nothing to do. The sensor is off until someone turns it on.
    follows: dict[str, Any] = {**common, "automation_condition": FOLLOWS}
    return [
        _ingest_asset(pipeline, common),
        _bucket_assignment_asset(pipeline, follows),
        _index_write_asset(pipeline, follows),
        _commit_asset(pipeline, common),
    ]


def _stage_asset(**arguments: Any) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Call `dg.asset`, which has no type of its own when its arguments come from a dict."""
    decorate: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(**arguments)
    return decorate


def _writer_of_landing(pipeline: PipelineConfig) -> tuple[list[dg.AssetDep], dg.AutomationCondition[Any] | None]:
    """Return the asset that writes the landing files, if any, and the condition by which their batch follows it."""
    writer = writer_of_files(pipeline)
    if writer is not None:
        # The landing sensor adds their partitions and starts their batches; which of the asset's runs wrote a file is not known.
        return [dg.AssetDep(writer, partition_mapping=dg.AllPartitionMapping())], None
    if pipeline.landing.asset is None:
        return [], None
    source = dg.AssetKey.from_user_string(pipeline.landing.asset)
    return [dg.AssetDep(source)], FOLLOWS.allow(dg.AssetSelection.assets(source))


def _ingest_asset(pipeline: PipelineConfig, common: dict[str, Any]) -> dg.AssetsDefinition:
    written_by, condition = _writer_of_landing(pipeline)

    @_stage_asset(
        name="ingest",
        deps=[asset_key(pipeline, LANDING), *written_by],
        automation_condition=condition,
        kinds={"python", "parquet"},
        description="Landing files, cast to the table's schema; rejected rows are written aside with their reasons.",
        metadata={"dagster/column_schema": column_schema(pipeline.first_schema)},
        **common,
    )
    @resources_of(pipeline)
    def ingest(
        context: dg.AssetExecutionContext,
        config: IngestConfig,
        store: StoreResource,
        spark: SparkResource,
        tables: TableResource,
    ) -> StepEvents:
        preload_imports(pipeline, [node.name for node in context.job_def.nodes])
        with failures_explained(context):
            keys, table = chosen_keys(context), tables.ensure(pipeline)
            landing = store.open(pipeline.landing.path, pipeline.landing.storage_options)
            batch, chosen = _plan(pipeline, context, config, table, files_of_partitions(landing, pipeline, keys), spark)
            if batch.reports_gone:
                yield materialized(context, _already_committed(batch))
                return
            checks = ingest_checks(pipeline)
            decide_by_tag(context, batch.context)
            try:
                report = _ingest(pipeline, context, batch, chosen, spark)
            except RejectedRowsError as error:
                yield from report_checks(context, checks, [rejected_result(pipeline, error, table.store)])
                raise
            yield materialized(context, ingest_metadata(report))
            rejected = rejected_result(pipeline, report, table.store)
            expected = landed_expectation_results(pipeline, batch.context, store)
            yield from report_checks(context, checks, chain([rejected], expected))

    return ingest


def _plan(
    pipeline: PipelineConfig,
    context: dg.AssetExecutionContext,
    config: IngestConfig,
    table: TableHandle,
    files: Sequence[SourceFile],
    spark: SparkResource,
) -> tuple[StageBatch, list[str]]:
    """Return the batch of a run's partitions, and the landing files that it is of: those of `files` that are not committed yet."""
    keys = chosen_keys(context)
    current, chosen = plan_batch(
        table.store,
        table.paths,
        keys,
        files,
        overwrite=None if config.overwrite == "no" else config.overwrite,
        run_id=context.run.root_run_id or context.run.run_id,
        still_counts=partial(still_counts, table.metadata),
    )
    batch = make_context(
        table.metadata, current.batch_id, runner=spark.runner(pipeline.uri), overwrite=current.overwrite
    )
    set_current_batch(table.store, table.paths, keys, current)
    gone = current.committed and batch.files.read(IngestReport) is None
    return StageBatch(batch, gone, current.committed), [f.path for f in chosen]


def _ingest(
    pipeline: PipelineConfig,
    context: dg.AssetExecutionContext,
    batch: StageBatch,
    files: Sequence[str],
    spark: SparkResource,
) -> IngestReport:
    """Ingest landing files; of a batch whose every file is in the table already there is nothing to ingest, or to compare."""
    if batch.committed:
        return batch.context.files.require(IngestReport)
    spark.submit_stage(context, "ingest", pipeline, batch.context, files)
    return ingest_landing(
        batch.context,
        files,
        pipeline.landing_options(),
        strict=pipeline.strict,
        max_rejected=pipeline.reject_limit(),
        judge=row_judge(pipeline),
    )


def _bucket_assignment_asset(pipeline: PipelineConfig, follows: dict[str, Any]) -> dg.AssetsDefinition:
    @_stage_asset(
        name="bucket_assignment",
        deps=[asset_key(pipeline, "ingest")],
        kinds={"python"},
        description="A bucket for every staged row: the one its key has by the table's hash index, or a place for a new key.",
        **follows,
    )
    @resources_of(pipeline)
    def bucket_assignment(context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource) -> StepEvents:
        with failures_explained(context):
            batch = _open_batch(pipeline, context, tables, spark)
            if batch.reports_gone:
                yield materialized(context, _already_committed(batch))
                return
            files = batch.context.files
            spark.submit_stage(context, "bucket_assignment", pipeline, batch.context)
            report = run_bucket_assignment(batch.context, files.latest_attempt())
            yield materialized(context, assign_metadata(report))
            accounted = check_rows_accounted([batch_counts(files.require(IngestReport), report)])
            results = check_results(pipeline, "bucket_assignment", [accounted])
            yield from report_checks(context, assignment_checks(pipeline), results)

    return bucket_assignment


def _index_write_asset(pipeline: PipelineConfig, follows: dict[str, Any]) -> dg.AssetsDefinition:
    @_stage_asset(
        name="index_write",
        deps=[asset_key(pipeline, "bucket_assignment")],
        kinds={"spark", "parquet"},
        description="Level-0 data files and hash index files, through one shuffle of Arrow blocks. Nothing is visible yet.",
        **follows,
    )
    @resources_of(pipeline)
    def index_write(
        context: dg.AssetExecutionContext, spark: SparkResource, tables: TableResource
    ) -> dg.MaterializeResult[Any]:
        with failures_explained(context):
            batch = _open_batch(pipeline, context, tables, spark)
            if batch.reports_gone:
                return materialized(context, _already_committed(batch))
            files = batch.context.files
            first = files.latest_attempt()
            spark.submit_stage(context, "index_write", pipeline, batch.context)
            # A job may have planned the batch again, too.
            attempt = write_attempt(batch.context, files.latest_attempt())
            if attempt != first:
                _observe_attempt(context, pipeline, batch.context, attempt, stages=("bucket_assignment",))
            report = files.require(IndexWriteReport, attempt=attempt)
            return materialized(context, write_metadata(report, files.require(IngestReport)))

    return index_write


def _commit_asset(pipeline: PipelineConfig, common: dict[str, Any]) -> dg.AssetsDefinition:
    shared = {n: common[n] for n in ("group_name", "owners", "tags", "partitions_def")}
    published, table = commit_spec(pipeline, shared), table_spec(pipeline, shared)

    @dg.multi_asset(
        name="__".join([*key_prefix(pipeline), COMMIT_STEP]),
        specs=[published, table],
        can_subset=True,
        **{n: common[n] for n in ("pool", "retry_policy", "backfill_policy")},
    )
    @resources_of(pipeline)
    def commit(
        context: dg.AssetExecutionContext, store: StoreResource, spark: SparkResource, tables: TableResource
    ) -> StepEvents:
        with failures_explained(context):
            batch, chosen = _open_batch(pipeline, context, tables, spark), context.selected_asset_keys
            specs = commit_checks(pipeline)
            checks = PublishChecks(pipeline, context, store, spark, specs)
            decide_by_tag(context, batch.context)
            if batch.reports_gone:
                metadata, done = _already_committed(batch), None
            else:
                try:
                    metadata, done = _commit(pipeline, context, batch, spark, checks)
                except BatchHeldError as error:
                    yield from observe_held(pipeline, context, error)
                    yield from report_checks(context, specs, checks.results)
                    raise
            state = table_state(pipeline, batch.context, done) if table.key in chosen else None
            if published.key in chosen:
                yield materialized(context, unsaid(metadata, state[0] if state else {}), published.key)
            if state is not None:
                yield materialized(context, *state)
            results = checks.results or table_results_of(
                pipeline, context, batch.context, store, spark, gone=batch.reports_gone
            )
            held = batch.context.files.held() is not None
            yield from report_checks(context, released_specs(specs) if held else specs, results)

    return commit


def _commit(
    pipeline: PipelineConfig,
    context: dg.AssetExecutionContext,
    batch: StageBatch,
    spark: SparkResource,
    checks: PublishChecks,
) -> tuple[dict[str, Any], BatchReports | None]:
    """Commit a batch; return the metrics of what it did, and its reports unless it was committed before.

    errors   BatchHeldError
    """
    files, after_checks = batch.context.files, pipeline.publish == "after_checks"
    of_job = None if after_checks else spark.submit_stage(context, "commit", pipeline, batch.context)
    report = commit_batch(batch.context, judge=checks.judge if after_checks else None)
    if report.discarded:
        mark_committed(batch.context.store, batch.context.paths, files.require(IngestReport).sources, files.batch_id)
        return {"lakeidx/batch_id": files.batch_id, "lakeidx/discarded": True}, None
    compact_after_commit(batch.context.metadata, batch.context.runner, batch.context.files.read(BucketAssignmentReport))
    if report.attempt > 1:
        # Also when it was committed before: a step that died after its commit has not said it.
        _observe_attempt(context, pipeline, batch.context, report.attempt)
    already = report.already if of_job is None else of_job["already"]
    return committed(batch.context, already=already), None if already else read_reports(files)


def _observe_attempt(
    context: dg.AssetExecutionContext,
    pipeline: PipelineConfig,
    batch: BatchContext,
    attempt: int,
    stages: Sequence[str] = ("bucket_assignment", "index_write"),
) -> None:
    """Observe on the assets of earlier stages what the newest attempt did: the batch was planned again after they had run."""
    files = batch.files
    context.log.info(f"batch {files.batch_id} was planned again, as attempt {attempt}")
    metadata = {
        "bucket_assignment": lambda: assign_metadata(files.require(BucketAssignmentReport, attempt=attempt)),
        "index_write": lambda: write_metadata(
            files.require(IndexWriteReport, attempt=attempt), files.require(IngestReport)
        ),
    }
    for stage in stages:
        for key in context.partition_keys:
            context.log_event(
                dg.AssetObservation(asset_key(pipeline, stage), partition=key, metadata=metadata[stage]())
            )


def committed(batch: BatchContext, *, already: bool = False) -> dict[str, Any]:
    """Write down that a batch's files are in the table; metrics of what it did."""
    reports = read_reports(batch.files)
    mark_committed(batch.store, batch.paths, reports.ingest.sources, batch.files.batch_id)
    outcome = reports.commit.model_copy(update={"already": already})
    paths = [batch.paths.snapshot_path(i) for i in reports.commit.snapshot_ids]
    commits = batch_commits(batch.metadata, reports.commit.snapshot_ids)
    return {
        **commit_metadata(outcome, reports.ingest, reports.assign, reports.write, paths),
        **changelog_metadata(batch.metadata, commits, reports.ingest.newest_change_ms),
    }
