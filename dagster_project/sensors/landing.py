"""The landing sensor of a table: new files, in batches, become runs. Off until someone turns it on."""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from dagster_project.assets.landing import UNPLACED_CHECK, fixed_partitions, landing_key, unplaced_result
from dagster_project.failures import skip_or_raise
from dagster_project.names import partitions_of, table_id
from dagster_project.resources import StoreResource
from dagster_project.sensors.planning import LandingCursor, PlannedBatch, plan_batches
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import landing_files, partition_key, unplaced_files
from lakeidx.storage.base import FileInfo

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
INTERVAL_SECONDS = 15


def build_landing_sensor(
    pipeline: PipelineConfig,
    job: Any,
    *,
    clock: Callable[[], float] = time.time,
    interval_seconds: int = INTERVAL_SECONDS,
) -> dg.SensorDefinition:
    """Build a sensor that lists the landing folder, adds partitions for new files and starts a run per batch."""
    partitions = partitions_of(pipeline)

    @dg.sensor(
        name=f"{table_id(pipeline)}__landing_sensor",
        job=job,
        minimum_interval_seconds=interval_seconds,
        description=f"Starts a run for new files {pipeline.landing.pattern} in {pipeline.landing.path}.",
    )
    def landing_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        cursor = LandingCursor.decode(context.cursor)
        try:
            landing = store.open(pipeline.landing.path)
            files = landing_files(landing, pipeline)
            unplaced = unplaced_files(landing, pipeline, fixed_partitions(pipeline))
        except LakeIdxError as error:
            return skip_or_raise(error, "the landing folder cannot be listed")
        batches, after = plan_batches(
            files, cursor, pipeline.landing, lambda n: partition_key(pipeline, n), now_ms=int(clock() * 1000)
        )
        added = []
        if isinstance(partitions, dg.DynamicPartitionsDefinition):
            known = set(context.instance.get_dynamic_partitions(str(partitions.name)))
            fresh = [k for k in dict.fromkeys(k for b in batches for k in b.keys) if k not in known]
            if fresh:
                added.append(partitions.build_add_request(fresh))
        else:
            fresh = []
        order = {
            k: i
            for i, k in enumerate([*partitions.get_partition_keys(dynamic_partitions_store=context.instance), *fresh])
        }
        requests = [r for b in batches for r in run_requests(pipeline, b, order)]
        reason = None
        if not requests:
            reason = f"{len(files)} landing files, {len(after.waiting)} of them not settled or waiting for their batch"
            reason += f"; {len(unplaced)} more match the pattern and no partition" if unplaced else ""
        events, after.unplaced = _unplaced_events(pipeline, unplaced, cursor.unplaced)
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=added,
            asset_events=events,
            cursor=after.encode(),
            skip_reason=reason,
        )

    return landing_sensor


def _unplaced_events(
    pipeline: PipelineConfig, unplaced: Sequence[FileInfo], said: str
) -> tuple[list[dg.AssetCheckEvaluation], str]:
    """Return the result of the check of files without a partition when it is another than last time, and its digest."""
    names = "\n".join(f.name for f in unplaced)
    digest = hashlib.sha256(names.encode()).hexdigest()[:16] if names else ""
    if digest == said:
        return [], said
    result = unplaced_result(pipeline, unplaced)
    event = dg.AssetCheckEvaluation(
        asset_key=landing_key(pipeline),
        check_name=UNPLACED_CHECK,
        passed=result.passed,
        description=result.description,
        metadata=result.metadata,
    )
    return [event], digest


def run_requests(pipeline: PipelineConfig, batch: PlannedBatch, order: dict[str, int]) -> list[dg.RunRequest]:
    """Yield the runs of a batch: one where its partitions follow each other, else one per stretch that does.

    order   position of every partition among all partitions
    """
    places = sorted({order[k]: k for k in batch.keys if k in order}.items())
    stretches: list[list[str]] = []
    before = -2
    for place, key in places:
        if place != before + 1:
            stretches.append([])
        stretches[-1].append(key)
        before = place
    names = ", ".join(f.name for f in batch.files[:5]) + (", ..." if len(batch.files) > 5 else "")
    out = []
    for number, keys in enumerate(stretches):
        run_key = batch.run_key if number == 0 else f"{batch.run_key}-{number}"
        tags = {"lakeidx/table": pipeline.table, "lakeidx/landing_files": names[:200]}
        if len(keys) == 1:
            out.append(dg.RunRequest(run_key=run_key, partition_key=keys[0], tags=tags))
        else:
            tags |= {RANGE_START: keys[0], RANGE_END: keys[-1]}
            out.append(dg.RunRequest(run_key=run_key, tags=tags))
    return out
