"""The sensor of a pipeline's consumer: a run for every new snapshot of the table."""

from typing import Any

import dagster as dg

from lakeidx.dagster.sensors.compaction import build_snapshot_sensor, name_state
from lakeidx.format.snapshot import Snapshot
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.handle import TableHandle

INTERVAL_SECONDS = 30


def build_changes_sensor(pipeline: PipelineConfig, job: Any) -> dg.SensorDefinition:
    """Build a sensor that starts the consumer's run for each new snapshot; its cursor is the one it looked at last."""
    said = f"Reads what every commit of {pipeline.table} changed."
    return build_snapshot_sensor(pipeline, job, "changes", _look, seconds=INTERVAL_SECONDS, description=said)


def _look(pipeline: PipelineConfig, _: TableHandle, snapshot: Snapshot | None, cursor: str) -> dg.SensorResult:
    state = "" if snapshot is None else name_state(snapshot)
    if state in ("", cursor):
        return dg.SensorResult(skip_reason="no snapshot since the last look")
    request = dg.RunRequest(run_key=f"changes-of-snapshot-{state}", tags={"lakeidx/table": pipeline.table})
    return dg.SensorResult(run_requests=[request], cursor=state)
