"""Publishing of a batch: checks of the table as it would be, and what is decided about a batch that is held.

A held batch is decided about by a run of the job ``<table>__held_batch``, or by the batch's own run, launched again with the tag
``lakeidx/held_batch``: ``release`` or ``discard``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakeidx.batch.committed_batch import read_reports
from lakeidx.batch.context import BatchContext
from lakeidx.batch.held.hold import discard_batch, require_held
from lakeidx.batch.held.release import release_held
from lakeidx.dagster.assets.checks import Step, check_results, joined_results
from lakeidx.dagster.assets.expectations import batches_expectation_results, table_expectation_results
from lakeidx.dagster.assets.op_jobs import build_op_job
from lakeidx.dagster.assets.table import table_observation, table_state
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.metadata.reports import commit_metadata
from lakeidx.dagster.names import HELD_BATCH, TABLE, asset_key, table_id
from lakeidx.dagster.resources import SparkResource, TableResource
from lakeidx.errors import BatchHeldError
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.pipeline_file.batch_checks import batch_results
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality.whole_table import Verified
from lakeidx.table.handle import TableHandle

#: Tag of a run of the batch that decides about it.
DECISION_TAG = "lakeidx/held_batch"


@dataclass
class PublishChecks:
    """The checks of a batch that is not published yet, and their results once it was judged."""

    step: Step
    specs: Sequence[dg.AssetCheckSpec]
    results: list[dg.AssetCheckResult] = field(default_factory=list)

    def judge(self, trial: BatchContext) -> Sequence[str]:
        """Judge the table as it would be; return what keeps the batch from being published."""
        compact_after_commit(trial.metadata, trial.runner)
        self.results = list(table_results_of(self.step, trial, unpublished=True))
        blocking = {s.name: s.blocking for s in self.specs}
        return [
            f"check {r.check_name}: {r.description or 'failed'}"
            for r in self.results
            if not r.passed and blocking[str(r.check_name)] and r.severity is dg.AssetCheckSeverity.ERROR
        ]


def table_results_of(
    step: Step, batch: BatchContext, *, gone: bool = False, unpublished: bool = False
) -> Iterator[dg.AssetCheckResult]:
    """Check the table where a batch has touched it, as a job where stages are jobs, and the figures of the last batches.

    gone         the batch was committed, and its reports are not there any more
    unpublished  the batch is in the table in memory only
    """
    pipeline, context, store, batch_id = step.pipeline, step.context, step.store, batch.files.batch_id
    arguments = ["--batch-id", batch_id, *(["--unpublished"] if unpublished else [])]
    found = step.spark.submitted(context, "checks", arguments, pipeline)
    verified = batch_results(pipeline, batch, gone=gone) if found is None else Verified.from_json(found)
    yield from joined_results(check_results(pipeline, TABLE, verified.results))
    newest = _figures(pipeline, batch) if unpublished else None
    yield from batches_expectation_results(pipeline, context.instance, store, batch_id, newest)
    if pipeline.publish == "after_checks":
        table = TableHandle(batch.metadata.store, batch.paths, batch.metadata)
        yield from table_expectation_results(pipeline, TABLE, table, store)


def _figures(pipeline: PipelineConfig, batch: BatchContext) -> dict[str, Any]:
    """Return what the materializations of a batch and its table would say."""
    reports = read_reports(batch.files)
    paths = [batch.paths.snapshot_path(i) for i in reports.commit.snapshot_ids]
    done = commit_metadata(reports.commit, reports.ingest, reports.assign, reports.write, paths)
    return {**table_state(pipeline, batch, reports)[0], **done}


def decide_by_tag(context: dg.AssetExecutionContext, batch: BatchContext) -> None:
    """Release or discard the batch of a run that is held, when a tag of the run says so."""
    wanted = context.run.tags.get(DECISION_TAG)
    if wanted is None or batch.files.held() is None or batch.files.decided() is not None:
        return
    if wanted not in ("release", "discard"):
        raise dg.Failure(f"tag {DECISION_TAG}: {wanted}: write release or discard", allow_retries=False)
    context.log.info(f"batch {batch.files.batch_id}: {wanted}, as tag {DECISION_TAG} says")
    if wanted == "discard":
        discard_batch(batch.metadata, batch.files.batch_id)
    else:
        release_held(batch, require_held(batch.files, batch.paths.root))


def observe_held(
    pipeline: PipelineConfig, context: dg.AssetExecutionContext, error: BatchHeldError
) -> Iterator[dg.AssetObservation]:
    """Say on the asset of the stage that a batch is held, why, and how one decides about it."""
    metadata: dict[str, Any] = {
        "lakeidx/batch_id": error.batch_id,
        "lakeidx/held": dg.MetadataValue.md("\n".join(f"- {reason}" for reason in error.reasons)),
        "lakeidx/decide": f"run {table_id(pipeline)}__{HELD_BATCH}_job, or this run with tag {DECISION_TAG}: release, discard",
    }
    for key in context.partition_keys:
        # Yielded, since what is logged right before a step fails is lost.
        yield dg.AssetObservation(asset_key(pipeline, "commit"), partition=key, metadata=metadata)


class HeldBatchConfig(dg.Config):
    """Run config of a decision."""

    batch: str = Field(description="the batch, as `lakeidx batch list` and the failed run name it")
    decision: Literal["release", "discard"] = Field(
        description="release: commit it now. discard: delete its files; its rows do not come into the table"
    )


def build_held_batch_job(pipeline: PipelineConfig) -> dg.JobDefinition:
    """Build the job that decides about a held batch; what it did is the metadata of its output and of the assets it changed."""

    def decide(
        context: dg.OpExecutionContext, config: HeldBatchConfig, spark: SparkResource, tables: TableResource
    ) -> None:
        with failures_explained():
            table = tables.open(pipeline)
            facts = table.held_batch(config.batch).as_dict()
            done: dict[str, Any] = {"lakeidx/batch_id": config.batch, "lakeidx/decision": config.decision}
            done["lakeidx/why_held"] = "; ".join(facts["why"])
            if config.decision == "discard":
                table.discard_batch(config.batch)
            else:
                result = table.release_batch(config.batch, runner=spark.runner(pipeline.uri))
                reports = (result.commit, result.ingest, result.assign, result.write)
                done |= commit_metadata(*reports, [table.paths.snapshot_path(i) for i in result.snapshots])
            context.log_event(dg.AssetObservation(asset_key(pipeline, "commit"), metadata=done))
            context.log_event(table_observation(pipeline, table.metadata))
            context.add_output_metadata(done)

    said = (
        f"Release or discard a batch of {pipeline.table} that stopped before its commit.",
        f"Releases or discards a held batch of {pipeline.table}: give its id and the decision as run config.",
    )
    return build_op_job(pipeline, HELD_BATCH, decide, HeldBatchConfig, descriptions=said)
