"""The sensor of a pipeline's consumer: a run for every new snapshot of the table."""

from typing import Any

import dagster as dg

from lakeidx.dagster.failures import skip_or_raise
from lakeidx.dagster.names import table_id
from lakeidx.dagster.resources import resource_keys, resources_in
from lakeidx.dagster.sensors.compaction import is_queued, name_state
from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.pipeline_file.model import PipelineConfig

INTERVAL_SECONDS = 30


def build_changes_sensor(pipeline: PipelineConfig, job: Any) -> dg.SensorDefinition:
    """Build a sensor that starts the consumer's run for each new snapshot; its cursor is the one it looked at last."""
    name = f"{table_id(pipeline)}__changes_sensor"

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Reads what every commit of {pipeline.table} changed.",
        required_resource_keys=resource_keys(pipeline, "tables"),
    )
    def changes_sensor(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult:
        try:
            snapshot = resources_in(context, pipeline).tables.handle(pipeline).snapshot
        except NotFoundError:
            return dg.SensorResult(skip_reason="the table does not exist yet")
        except LakeIdxError as error:
            return skip_or_raise(error, "the table cannot be read")
        state = "" if snapshot is None else name_state(snapshot)
        if state in ("", context.cursor):
            return dg.SensorResult(skip_reason="no snapshot since the last look")
        if waits := is_queued(context.instance, "sensor", name):
            return dg.SensorResult(skip_reason=waits)
        request = dg.RunRequest(run_key=f"changes-of-snapshot-{state}", tags={"lakeidx/table": pipeline.table})
        return dg.SensorResult(run_requests=[request], cursor=state)

    return changes_sensor
