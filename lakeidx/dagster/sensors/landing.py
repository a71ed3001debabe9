"""The landing sensor of a table: new files, in batches, become runs. Off until someone turns it on."""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from lakeidx.dagster.assets.landing import UNPLACED_CHECK, landing_key, unplaced_result
from lakeidx.dagster.failures import skip_or_raise
from lakeidx.dagster.names import partitions_of, table_id, writer_of_files
from lakeidx.dagster.resources import StoreResource, resources_of
from lakeidx.dagster.sensors.looking import FoundFiles, look, remember_look
from lakeidx.dagster.sensors.planning import MAX_BATCHES, LandingCursor, PlannedBatch, plan_batches
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import partition_key

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
    """Build a sensor that lists landing files, adds partitions for new ones and starts a run per batch."""
    partitions = partitions_of(pipeline)
    # A queue names new files, so it is polled where there is one.
    writer = writer_of_files(pipeline) if pipeline.landing.events is None else None

    @dg.sensor(
        name=f"{table_id(pipeline)}__landing_sensor",
        job=job,
        minimum_interval_seconds=interval_seconds,
        description=f"Starts a run for new files {pipeline.landing.pattern} in {pipeline.landing.path}.",
    )
    @resources_of(pipeline)
    def landing_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        cursor = LandingCursor.decode(context.cursor)
        now_ms = int(clock() * 1000)
        written = None if writer is None else _newest_materialization(context.instance, writer)
        try:
            found = look(pipeline, store, cursor, now_ms, materialized=written)
        except LakeIdxError as error:
            return skip_or_raise(error, "landing files cannot be listed")
        for line in found.warnings:
            context.log.warning(line)
        batches, after = plan_batches(
            found.files,
            cursor,
            pipeline.landing,
            lambda n: partition_key(pipeline, n),
            now_ms=now_ms,
            whole=found.whole,
        )
        if written is not None:
            after.materialized = written
        if pipeline.landing.events is not None:
            remember_look(found, after, now_ms, all_taken=len(batches) < MAX_BATCHES)
        fresh, added = _new_partitions(context.instance, partitions, batches)
        order = {
            k: i
            for i, k in enumerate([*partitions.get_partition_keys(dynamic_partitions_store=context.instance), *fresh])
        }
        requests = [r for b in batches for r in run_requests(pipeline, b, order)]
        events, after.unplaced = _unplaced_events(pipeline, found, cursor.unplaced)
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=added,
            asset_events=events,
            cursor=after.encode(),
            skip_reason=None if requests else _why_nothing(found, len(after.waiting), writer),
        )

    return landing_sensor


def _new_partitions(
    instance: dg.DagsterInstance, partitions: dg.PartitionsDefinition, batches: Sequence[PlannedBatch]
) -> tuple[list[str], list[dg.AddDynamicPartitionsRequest]]:
    """Return the partitions of batches that Dagster does not know yet, and the request to add them."""
    if not isinstance(partitions, dg.DynamicPartitionsDefinition):
        return [], []
    known = set(instance.get_dynamic_partitions(str(partitions.name)))
    fresh = [k for k in dict.fromkeys(k for b in batches for k in b.keys) if k not in known]
    return fresh, [partitions.build_add_request(fresh)] if fresh else []


def _newest_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> int:
    """Return the number of an asset's newest materialization; 0 when there is none."""
    records = instance.get_asset_records([asset])
    return (records[0].asset_entry.last_materialization_storage_id or 0) if records else 0


def _why_nothing(found: FoundFiles, waiting: int, writer: dg.AssetKey | None) -> str:
    if not found.whole and writer is not None:
        return f"{writer.to_user_string()} was not materialized since the last look, and no file waits"
    if found.whole:
        reason = f"{len(found.files)} landing files, {waiting} of them not settled or waiting for their batch"
    else:
        reason = (
            f"{found.received} messages, {found.left} of them stay in the queue; {waiting} files wait for their batch"
        )
    return reason + (f"; {len(found.unplaced)} more match the pattern and no partition" if found.unplaced else "")


def _unplaced_events(
    pipeline: PipelineConfig, found: FoundFiles, said: str
) -> tuple[list[dg.AssetCheckEvaluation], str]:
    """Return the result of the check of files without a partition when it is another than last time, and its digest."""
    unplaced = found.unplaced
    if not unplaced and not found.whole:
        return [], said
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
