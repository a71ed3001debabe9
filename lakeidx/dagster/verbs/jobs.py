"""Jobs of verbs: each is one op with run config, which calls the table's method and says what was done on the table's asset.

Dagster reads the annotations of ops when they are defined, so they are real types here, not postponed texts.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakeidx.batch.committed_batch import BatchResult
from lakeidx.dagster.assets.op_jobs import build_op_job
from lakeidx.dagster.assets.table import table_observation
from lakeidx.dagster.failures import failures_explained, retry_policy
from lakeidx.dagster.metadata.reports import records_table, run_metadata
from lakeidx.dagster.names import (
    CALL_PROCEDURE,
    DELETE_ROWS,
    DROP_PARTITIONS,
    MERGE_ROWS,
    ROLL_BACK,
    UPDATE_ROWS,
)
from lakeidx.dagster.resources import SparkResource, TableResource
from lakeidx.dagster.verbs.settings import (
    DeleteConfig,
    DropConfig,
    MergeConfig,
    ProcedureConfig,
    RollbackConfig,
    UpdateConfig,
)
from lakeidx.dagster.verbs.source import rows_of_asset
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.results import Result

# What verbs do is imported where it is done: a run of a batch loads these definitions, too.
if TYPE_CHECKING:
    from lakeidx.api.table import Table


@dataclass(frozen=True, slots=True)
class VerbCall:
    """One call of a verb in a run."""

    pipeline: PipelineConfig
    context: dg.OpExecutionContext
    table: "Table"
    tables: TableResource
    spark: SparkResource

    def batch(self, config: Any) -> dict[str, Any]:
        """Return the arguments of a verb that writes rows by a batch.

        The batch is named after the run and its config, so that what is tried again, in this run or in one that repeats a failed
        one, changes rows once.
        """
        run = self.context.run
        while run.parent_run_id is not None:
            parent = self.context.instance.get_run_by_id(run.parent_run_id)
            if parent is None or parent.status is dg.DagsterRunStatus.SUCCESS:
                break
            run = parent
        asked = json.dumps(config.model_dump(), sort_keys=True, default=str)
        name = f"dagster-{run.run_id}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
        limits, runner = config.limits or self.pipeline.limits or None, self.spark.runner(self.pipeline.uri)
        return {"batch_id": name, "dry_run": config.dry_run, "limits": limits, "runner": runner}


def _delete(call: VerbCall, config: DeleteConfig) -> Result | None:
    # A delete may be done twice: one that is tried again looks for its rows anew.
    how = {**call.batch(config), "batch_id": None}
    return call.table.delete(config.keys, where=config.where, **how)


def _update(call: VerbCall, config: UpdateConfig) -> Result | None:
    return call.table.update(config.set, keys=config.keys, where=config.where, **call.batch(config))


def _merge(call: VerbCall, config: MergeConfig) -> Result | None:
    from lakeidx.api.merge import UPSERT, on_of

    source = rows_of_asset(call.context, call.tables, config.source, config.partition)
    on = call.table.schema.primary_keys if config.on is None else on_of(config.on)
    merge = call.table.merge(source, on)
    for clause in UPSERT if config.when is None else config.when:
        merge.when(clause)
    return merge.execute(**call.batch(config))


def _drop(call: VerbCall, config: DropConfig) -> Result:
    return call.table.drop_partitions(config.partitions, where=config.where, dry_run=config.dry_run)


def _roll_back(call: VerbCall, config: RollbackConfig) -> Result:
    return call.table.rollback(**config.model_dump())


def _call(call: VerbCall, config: ProcedureConfig) -> Result:
    from lakeidx.api.sql.procedures import run_procedure

    dry = {"dry_run": True} if config.dry_run else {}
    return run_procedure(call.table, config.procedure, {**config.arguments, **dry})


@dataclass(frozen=True, slots=True)
class _Verb:
    """A verb: its name, run config, what it does to a table `{}`, and how."""

    name: str
    config: type[dg.Config]
    description: str
    run: Callable[[VerbCall, Any], Result | None]


_OF_ROWS = (
    _Verb(DELETE_ROWS, DeleteConfig, "Deletes rows of {}, by keys or by a condition.", _delete),
    _Verb(UPDATE_ROWS, UpdateConfig, "Changes columns of rows of {}, by keys or by a condition.", _update),
    _Verb(MERGE_ROWS, MergeConfig, "Merges the rows of another asset into {}.", _merge),
)
_DROP = _Verb(DROP_PARTITIONS, DropConfig, "Drops partitions of {}, by name or by a condition.", _drop)
_ROLL_BACK = _Verb(ROLL_BACK, RollbackConfig, "Makes an older state of {} the newest; later ones go.", _roll_back)

_CALL = _Verb(CALL_PROCEDURE, ProcedureConfig, "Runs a procedure on {}: of branches, tags, streams and upkeep.", _call)


def build_verb_jobs(pipeline: PipelineConfig) -> Iterator[dg.JobDefinition]:
    """Build the jobs of the verbs that suit a table; all where its columns are not known yet."""
    known = bool(pipeline.fields)
    if pipeline.primary_keys or not known:
        yield from (_job(pipeline, verb) for verb in _OF_ROWS)
    if pipeline.partition_keys or not known:
        yield _job(pipeline, _DROP)
    yield _job(pipeline, _ROLL_BACK)
    yield _job(pipeline, _CALL)


def _job(pipeline: PipelineConfig, verb: _Verb) -> dg.JobDefinition:
    kind, description = verb.config, verb.description.format(pipeline.table)

    def work(context: dg.OpExecutionContext, config: Any, spark: SparkResource, tables: TableResource) -> None:
        with failures_explained():
            table = tables.open(pipeline)
            done = verb.run(VerbCall(pipeline, context, table, tables, spark), config)
            metadata = {
                "lakeidx/verb": verb.name,
                "lakeidx/asked": dg.MetadataValue.json(config.model_dump(exclude_defaults=True)),
                **_metadata(table, done),
            }
            context.add_output_metadata(metadata)
            if done is None or config.dry_run:
                return
            seen = table_observation(pipeline, table.metadata)
            context.log_event(
                dg.AssetObservation(seen.asset_key, metadata={**seen.metadata, **metadata}, tags=seen.tags)
            )

    said = (description, description)
    return build_op_job(pipeline, verb.name, work, kind, descriptions=said, retry_policy=retry_policy(pipeline))


def _metadata(table: "Table", done: Result | None) -> dict[str, Any]:
    """Return what a verb did, or would do: rows by kind and what they cost, or what it found."""
    if done is None:
        return {"lakeidx/note": "no such row: nothing is written"}
    from lakeidx.api.dry_run.plan import BatchPlan

    measured: dict[str, Any] = {}
    if isinstance(done, BatchResult) and not isinstance(done, BatchPlan):
        reports = None if done.already else done
        about = {"batch_id": done.ingest.batch_id, "already_committed": done.already, "replans": done.commit.replans}
        measured = {**{f"lakeidx/{name}": v for name, v in about.items()}, **run_metadata(reports)}
        done = table.explain_batch(done)
    found = {n: list(v) if isinstance(v, tuple) else v for n, v in done.as_dict().items()}
    tables = {n: records_table(found.pop(n)) for n in ("partitions", "sample") if isinstance(done, BatchPlan)}
    note = {"note": done.note()} if done.note() else {}
    return {**{f"lakeidx/{name}": v for name, v in {**note, **found, **tables}.items()}, **measured}
