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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakeidx.batch.artifacts import BucketAssignmentReport, IndexWriteReport, IngestReport, SourceFile
from lakeidx.batch.committed_batch import BatchResult, batch_commits, read_reports
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.landed_files import mark_committed
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.rerun import still_counts
from lakeidx.batch.upsert import commit_batch, write_attempt
from lakeidx.dagster.assets.checks import (
    REJECTED,
    StageEvents,
    Step,
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
from lakeidx.dagster.assets.publish import PublishChecks, decide_by_tag, observe_held, table_results_of
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
    LOAD_STEP,
    TABLE,
    asset_key,
    key_prefix,
    partitions_of,
    pool_name,
    stages_group,
    writer_of_files,
)
from lakeidx.dagster.resources import config_fields, resource_keys, resources_in
from lakeidx.errors import BatchHeldError, InvalidInputError, RejectedRowsError
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.maintenance.landed_columns import ingest_landing
from lakeidx.pipeline_file.batch_checks import batch_counts, commit_rules
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import (
    CurrentBatch,
    current_batch,
    files_of_partitions,
    plan_batch,
    set_current_batch,
)
from lakeidx.quality.batch_rules import check_rows_accounted
from lakeidx.table.handle import TableHandle


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


def _open_batch(step: "_Step") -> StageBatch:
    """Return the batch that the partitions of a run are working on.

    errors   see `chosen_keys`
    """
    keys, table = chosen_keys(step.context), step.tables.handle(step.pipeline)
    return _stage_batch(step, table, current_batch(table.store, table.paths, keys))


def _stage_batch(step: "_Step", table: TableHandle, current: CurrentBatch) -> StageBatch:
    batch = make_context(
        table.metadata,
        current.batch_id,
        runner=step.spark.runner(step.pipeline.uri),
        overwrite=current.overwrite,
        limits=step.pipeline.limits or None,
    )
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


def build_stage_assets(pipeline: PipelineConfig) -> list[dg.AssetsDefinition]:
    """Build the four stages of a batch as assets, one after another, and the table; or the table alone, whose step runs all."""
    shared: dict[str, Any] = {
        "group_name": stages_group(pipeline),
        "owners": list(pipeline.owners),
        "tags": pipeline.tags,
        "partitions_def": partitions_of(pipeline),
    }
    upstream, condition = _writer_of_landing(pipeline)
    upstream = [dg.AssetDep(asset_key(pipeline, LANDING)), *upstream]
    if pipeline.lineage == "table":
        spec = table_spec(pipeline, shared).replace_attributes(deps=upstream, automation_condition=condition)
        return [_build_step(pipeline, LOAD_STEP, [_ingest, _assign, _write, _commit], [spec])]
    # With the automation sensor on, an ingest that was run by itself pulls the stages after it along; runs of the whole job
    # leave nothing to do. The sensor is off until someone turns it on.
    ingest = dg.AssetSpec(
        asset_key(pipeline, "ingest"),
        deps=upstream,
        automation_condition=condition,
        kinds={"python", "parquet"},
        description="Landing files, cast to the table's schema; rejected rows are written aside with their reasons.",
        metadata={"dagster/column_schema": column_schema(pipeline.first_schema)},
        **shared,
    )
    bucket_assignment = dg.AssetSpec(
        asset_key(pipeline, "bucket_assignment"),
        deps=[ingest],
        automation_condition=FOLLOWS,
        kinds={"python"},
        description="A bucket for every staged row: its key's by the hash index, or a place for a new key.",
        **shared,
    )
    index_write = dg.AssetSpec(
        asset_key(pipeline, "index_write"),
        deps=[bucket_assignment],
        automation_condition=FOLLOWS,
        kinds={"spark", "parquet"},
        description="Level-0 data files and hash index files, by one shuffle of Arrow blocks; none is visible yet.",
        **shared,
    )
    return [
        _build_step(pipeline, "ingest", [_ingest], [ingest]),
        _build_step(pipeline, "bucket_assignment", [_assign], [bucket_assignment]),
        _build_step(pipeline, "index_write", [_write], [index_write]),
        _build_step(pipeline, COMMIT_STEP, [_commit], [commit_spec(pipeline, shared), table_spec(pipeline, shared)]),
    ]


@dataclass(frozen=True, slots=True)
class _Step(Step):
    """A step of a batch, with what its stages are given."""

    overwrite: str

    def made(self, metadata: Mapping[str, Any]) -> StageEvents:
        """Yield the asset of a stage; nothing where the table alone is one."""
        if self.pipeline.lineage == "stages":
            yield materialized(self.context, metadata)
        return False

    def run(self, stages: Sequence[Callable[["_Step"], StageEvents]]) -> StepEvents:
        """Run stages one after another; none after one whose check has failed and blocks."""
        with failures_explained(self.context):
            for stage in stages:
                if (yield from stage(self)):
                    return


def _build_step(
    pipeline: PipelineConfig,
    name: str,
    stages: Sequence[Callable[[_Step], StageEvents]],
    specs: Sequence[dg.AssetSpec],
) -> dg.AssetsDefinition:
    """Build the assets that a step makes with some of the stages."""
    ingests, per_run = _ingest in stages, pipeline.partitions.per_run

    @dg.multi_asset(
        name="__".join([*key_prefix(pipeline), name]),
        specs=specs,
        can_subset=len(specs) > 1,
        pool=pool_name(pipeline),
        retry_policy=retry_policy(pipeline),
        # One run for a whole backfill has one assignment, one shuffle and one snapshot.
        backfill_policy=dg.BackfillPolicy.single_run() if per_run is None else dg.BackfillPolicy.multi_run(per_run),
        config_schema=config_fields(IngestConfig) if ingests else None,
        required_resource_keys=resource_keys(pipeline),
    )
    def step(context: dg.AssetExecutionContext) -> StepEvents:
        config = IngestConfig(**(context.op_execution_context.op_config or {}))
        yield from _Step(pipeline, context, *resources_in(context, pipeline), config.overwrite).run(stages)

    return step


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


def _ingest(step: _Step) -> StageEvents:
    pipeline, context, store, tables = step.pipeline, step.context, step.store, step.tables
    keys, table = chosen_keys(context), tables.ensure_handle(pipeline)
    landing = store.open(pipeline.landing.path, pipeline.landing.storage_options)
    batch, chosen = _plan(step, table, files_of_partitions(landing, pipeline, keys))
    if batch.reports_gone:
        return (yield from step.made(_already_committed(batch)))
    checks = ingest_checks(pipeline)
    decide_by_tag(context, batch.context)
    try:
        report = _ingest_files(step, batch, chosen)
    except RejectedRowsError as error:
        yield from report_checks(context, checks, [rejected_result(pipeline, error, table.store)])
        raise
    yield from step.made(ingest_metadata(report))
    rejected = rejected_result(pipeline, report, table.store)
    expected = landed_expectation_results(pipeline, batch.context, store)
    return (yield from report_checks(context, checks, chain([rejected], expected)))


def _plan(step: _Step, table: TableHandle, files: Sequence[SourceFile]) -> tuple[StageBatch, list[str]]:
    """Return the batch of a run's partitions, and the landing files that it is of: those of `files` that are not committed yet."""
    keys, run = chosen_keys(step.context), step.context.run
    current, chosen = plan_batch(
        table.store,
        table.paths,
        keys,
        files,
        overwrite=None if step.overwrite == "no" else step.overwrite,
        run_id=run.root_run_id or run.run_id,
        still_counts=partial(still_counts, table.metadata),
    )
    # A request that the table cannot take is refused here, and leaves the partitions with the batch they had.
    batch = _stage_batch(step, table, current)
    set_current_batch(table.store, table.paths, keys, current)
    return batch, [f.path for f in chosen]


def _ingest_files(step: _Step, batch: StageBatch, files: Sequence[str]) -> IngestReport:
    """Ingest landing files; of a batch whose every file is in the table already there is nothing to ingest, or to compare."""
    if batch.committed:
        return batch.context.files.require(IngestReport)
    pipeline = step.pipeline
    step.spark.submit_stage(step.context, "ingest", pipeline, batch.context, files)
    return ingest_landing(
        batch.context,
        files,
        pipeline.landing_options(),
        strict=pipeline.strict,
        max_rejected=pipeline.reject_limit(),
        judge=row_judge(pipeline),
    )


def _assign(step: _Step) -> StageEvents:
    pipeline, context = step.pipeline, step.context
    batch = _open_batch(step)
    if batch.reports_gone:
        return (yield from step.made(_already_committed(batch)))
    files = batch.context.files
    step.spark.submit_stage(context, "bucket_assignment", pipeline, batch.context)
    report = run_bucket_assignment(batch.context, files.latest_attempt())
    yield from step.made(assign_metadata(report))
    accounted = check_rows_accounted(batch_counts(files.require(IngestReport), report))
    results = check_results(pipeline, "bucket_assignment", [accounted])
    return (yield from report_checks(context, assignment_checks(pipeline), results))


def _write(step: _Step) -> StageEvents:
    batch = _open_batch(step)
    if batch.reports_gone:
        return (yield from step.made(_already_committed(batch)))
    files = batch.context.files
    first = files.latest_attempt()
    step.spark.submit_stage(step.context, "index_write", step.pipeline, batch.context)
    # A job may have planned the batch again, too.
    attempt = write_attempt(batch.context, files.latest_attempt())
    if attempt != first:
        _observe_attempt(step, batch.context, attempt, stages=("bucket_assignment",))
    report = files.require(IndexWriteReport, attempt=attempt)
    yield from step.made(write_metadata(report, files.require(IngestReport)))
    return False


def _commit(step: _Step) -> StageEvents:
    pipeline, context = step.pipeline, step.context
    batch, chosen = _open_batch(step), context.selected_asset_keys
    specs = commit_checks(pipeline)
    checks = PublishChecks(step, specs)
    decide_by_tag(context, batch.context)
    if batch.reports_gone:
        metadata, done = _already_committed(batch), None
    else:
        try:
            metadata, done = _publish(step, batch, checks)
        except BatchHeldError as error:
            yield from observe_held(pipeline, context, error)
            yield from report_checks(context, specs, checks.results)
            raise
    commit, table = asset_key(pipeline, "commit"), asset_key(pipeline, TABLE)
    state, version = table_state(pipeline, batch.context, done) if table in chosen else ({}, None)
    if commit == table:
        yield materialized(context, {**metadata, **state}, version=version)
    else:
        if commit in chosen:
            yield materialized(context, unsaid(metadata, state), commit)
        if table in chosen:
            yield materialized(context, state, table, version)
    results = checks.results or table_results_of(step, batch.context, gone=batch.reports_gone)
    held = batch.context.files.held() is not None
    return (yield from report_checks(context, specs, results, released=held))


def _publish(step: _Step, batch: StageBatch, checks: PublishChecks) -> tuple[dict[str, Any], BatchResult | None]:
    """Commit a batch; return the metrics of what it did, and its reports unless it was committed before.

    errors   BatchHeldError
    """
    files, after_checks = batch.context.files, step.pipeline.publish == "after_checks"
    of_job = None if after_checks else step.spark.submit_stage(step.context, "commit", step.pipeline, batch.context)
    report = commit_batch(batch.context, judge=checks.judge if after_checks else None)
    if report.discarded:
        mark_committed(batch.context.store, batch.context.paths, files.require(IngestReport).sources, files.batch_id)
        return {"lakeidx/batch_id": files.batch_id, "lakeidx/discarded": True}, None
    compact_after_commit(batch.context.metadata, batch.context.runner, batch.context.files.read(BucketAssignmentReport))
    if report.attempt > 1:
        # Also when it was committed before: a step that died after its commit has not said it.
        _observe_attempt(step, batch.context, report.attempt)
    already = report.already if of_job is None else of_job["already"]
    return committed(batch.context, already=already), None if already else read_reports(files)


def _observe_attempt(
    step: _Step, batch: BatchContext, attempt: int, stages: Sequence[str] = ("bucket_assignment", "index_write")
) -> None:
    """Observe on the assets of earlier stages what the newest attempt did: the batch was planned again after they had run."""
    files, context = batch.files, step.context
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
                dg.AssetObservation(asset_key(step.pipeline, stage), partition=key, metadata=metadata[stage]())
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
