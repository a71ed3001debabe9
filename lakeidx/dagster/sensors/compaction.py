"""The compaction sensor of a table: when a new snapshot leaves buckets with too many sorted runs or small files, compact."""

import hashlib
from collections.abc import Callable
from typing import Any

import dagster as dg

from lakeidx.dagster.assets.table import table_observation
from lakeidx.dagster.failures import skip_or_raise
from lakeidx.dagster.names import table_id
from lakeidx.dagster.resources import resource_keys, resources_in
from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest

INTERVAL_SECONDS = 60


def build_snapshot_sensor(
    pipeline: PipelineConfig,
    job: Any,
    verb: str,
    look: Callable[[PipelineConfig, TableHandle, Snapshot | None, str], dg.SensorResult],
    *,
    seconds: int,
    description: str,
) -> dg.SensorDefinition:
    """Build a sensor that looks at the newest snapshot of a table, while none of its own runs is queued.

    look   is given the newest snapshot, and the cursor as the last look left it
    """
    name = f"{table_id(pipeline)}__{verb}_sensor"

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=seconds,
        description=description,
        required_resource_keys=resource_keys(pipeline, "tables"),
    )
    def snapshot_sensor(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult:
        try:
            table = resources_in(context, pipeline).tables.handle(pipeline)
        except NotFoundError:
            return dg.SensorResult(skip_reason="the table does not exist yet")
        except LakeIdxError as error:
            return skip_or_raise(error, "the table cannot be read")
        if waits := is_queued(context.instance, "sensor", name):
            return dg.SensorResult(skip_reason=waits)
        try:
            return on_newest(table.metadata, lambda newest: look(pipeline, table, newest, context.cursor or ""))
        except LakeIdxError as error:
            return skip_or_raise(error, "the table cannot be read")

    return snapshot_sensor


def build_compaction_sensor(pipeline: PipelineConfig, job: Any) -> dg.SensorDefinition:
    """Build a sensor that plans the compaction of every new snapshot and starts a run when there is something to do.

    Its cursor is the snapshot it evaluated last; the run key is that snapshot, so one state is compacted once. While nothing is
    due it looks only at buckets that were written since; the first look after something was due is at all of them. Each new
    snapshot is an observation of the table, whoever wrote it.
    """
    said = f"Compacts buckets of {pipeline.table} that have num-sorted-run.compaction-trigger runs or more."
    return build_snapshot_sensor(pipeline, job, "compaction", _look, seconds=INTERVAL_SECONDS, description=said)


def _look(pipeline: PipelineConfig, table: TableHandle, snapshot: Snapshot | None, cursor: str) -> dg.SensorResult:
    """Plan the compaction of the newest snapshot."""
    state = "" if snapshot is None else name_state(snapshot)
    looked, _, found = cursor.partition(" ")
    if snapshot is None or state == looked:
        return dg.SensorResult(skip_reason="no snapshot since the last look")
    nothing_due = f"nothing due under schema {table.schema.id}"
    # Each process of Dagster loads this module, and few of them plan.
    from lakeidx.compaction.plan_buckets import plan_due

    clean = _snapshot_of(table.metadata, looked) if found == nothing_due else None
    work = plan_due(table.metadata, table.schema, snapshot, clean=clean)
    seen = table_observation(pipeline, table.metadata)
    if not work:
        reason = f"snapshot {snapshot.id} needs no compaction"
        return dg.SensorResult(skip_reason=reason, cursor=f"{state} {nothing_due}", asset_events=[seen])
    tags = {"lakeidx/table": pipeline.table, "lakeidx/buckets_to_compact": str(len(work))}
    request = dg.RunRequest(run_key=f"compaction-of-snapshot-{state}", tags=tags)
    return dg.SensorResult(run_requests=[request], cursor=state, asset_events=[seen])


def is_queued(instance: dg.DagsterInstance, kind: str, name: str) -> str:
    """Return that a run of a sensor or schedule waits in the queue, since another would do the same; "" when none does.

    kind   sensor or schedule
    """
    waiting = dg.RunsFilter(tags={f"dagster/{kind}_name": name}, statuses=[dg.DagsterRunStatus.QUEUED])
    found = instance.get_runs(waiting, limit=1)
    return f"run {found[0].run_id} of this {kind} is still queued" if found else ""


def name_state(snapshot: Snapshot) -> str:
    """Name a state of the table by snapshot id and identity: after a rollback ids are used again."""
    return f"{snapshot.id}-{hashlib.sha256(snapshot.identity.encode()).hexdigest()[:8]}"


def _snapshot_of(metadata: TableMetadata, state: str) -> Snapshot | None:
    """Return the snapshot that `name_state` has named; None when it has expired or was rolled back."""
    number = state.partition("-")[0]
    try:
        found = metadata.load_snapshot(int(number))
    except (NotFoundError, ValueError):
        return None
    return found if name_state(found) == state else None
