"""The compaction sensor of a table: when a new snapshot leaves buckets with too many sorted runs or small files, compact."""

import hashlib
from typing import Any

import dagster as dg

from dagster_project.failures import skip_or_raise
from dagster_project.names import table_id
from dagster_project.resources import TableResource
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.view import load_view

INTERVAL_SECONDS = 60


def build_compaction_sensor(pipeline: PipelineConfig, job: Any) -> dg.SensorDefinition:
    """Build a sensor that plans the compaction of every new snapshot and starts a run when there is something to do.

    Its cursor is the snapshot it evaluated last; the run key is that snapshot, so one state is compacted once.
    """

    @dg.sensor(
        name=f"{table_id(pipeline)}__compaction_sensor",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Compacts buckets of {pipeline.table} that have num-sorted-run.compaction-trigger runs or more.",
    )
    def compaction_sensor(context: dg.SensorEvaluationContext, tables: TableResource) -> dg.SensorResult:
        try:
            table = tables.open(pipeline)
        except NotFoundError:
            return dg.SensorResult(skip_reason="the table does not exist yet")
        except LakeIdxError as error:
            return skip_or_raise(error, "the table cannot be read")
        try:
            snapshot = table.snapshot
            state = "" if snapshot is None else state_of(snapshot)
            if snapshot is None or state == context.cursor:
                return dg.SensorResult(skip_reason="no snapshot since the last look")
            work = plan_buckets(table.metadata, table.schema, load_view(table.metadata, snapshot), full=False)
        except LakeIdxError as error:
            return skip_or_raise(error, "the table cannot be read")
        if not work:
            return dg.SensorResult(skip_reason=f"snapshot {snapshot.id} needs no compaction", cursor=state)
        tags = {"lakeidx/table": pipeline.table, "lakeidx/buckets_to_compact": str(len(work))}
        request = dg.RunRequest(run_key=f"compaction-of-snapshot-{state}", tags=tags)
        return dg.SensorResult(run_requests=[request], cursor=state)

    return compaction_sensor


def state_of(snapshot: Snapshot) -> str:
    """Name a state of the table by snapshot id and identity: after a rollback ids are used again."""
    return f"{snapshot.id}-{hashlib.sha256(snapshot.identity.encode()).hexdigest()[:8]}"
