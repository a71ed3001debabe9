"""The landing sensor of a table: new files, in batches, become runs. Off until someone turns it on."""

import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakeidx.dagster.assets.landing import UNPLACED_CHECK, landing_key, unplaced_result
from lakeidx.dagster.failures import skip_or_raise
from lakeidx.dagster.names import partitions_of, table_id, writer_of_files
from lakeidx.dagster.resources import resource_keys, resources_in
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import partition_key
from lakeidx.storage.base import FileInfo

# What a tick does is imported by it: a run of a batch loads these definitions, too.
if TYPE_CHECKING:
    from lakeidx.dagster.sensors.looking import FoundFiles
    from lakeidx.dagster.sensors.planning import LandingCursor, PlannedBatch

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
INTERVAL_SECONDS = 15


def build_landing_sensor(pipeline: PipelineConfig, job: Any) -> dg.SensorDefinition:
    """Build a sensor that lists landing files, adds partitions for new ones and starts a run per batch."""
    # A queue names new files, so it is polled where there is one.
    writer = writer_of_files(pipeline) if pipeline.landing.events is None else None

    @dg.sensor(
        name=f"{table_id(pipeline)}__landing_sensor",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Starts a run for new files {pipeline.landing.pattern} in {pipeline.landing.path}.",
        required_resource_keys=resource_keys(pipeline, "store"),
    )
    def landing_sensor(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult:
        from lakeidx.dagster.sensors.looking import look, remember_look
        from lakeidx.dagster.sensors.marks import LandingMemory
        from lakeidx.dagster.sensors.planning import MAX_BATCHES, plan_batches

        now_ms, store = int(time.time() * 1000), resources_in(context, pipeline).store
        written = None if writer is None else _newest_materialization(context.instance, writer)
        memory = LandingMemory(pipeline, store)
        try:
            cursor = memory.recall(context.cursor)
            found = look(pipeline, store, cursor, now_ms, materialized=written)
            cursor = cursor.having_seen(memory.loaded(cursor.unknown(found.files)))
        except LakeIdxError as error:
            return skip_or_raise(error, "landing files cannot be listed")
        for line in (*memory.warnings, *found.warnings, *_dated_ahead(found.files, cursor, now_ms)):
            context.log.warning(line)
        batches, after = plan_batches(
            found.files, cursor, pipeline.landing, lambda n: partition_key(pipeline, n), now_ms=now_ms, whole=found.whole
        )  # fmt: skip
        if written is not None:
            after.materialized = written
        if pipeline.landing.events is not None:
            remember_look(found, after, now_ms, all_taken=len(batches) < MAX_BATCHES)
        requests, added = _requests(pipeline, context.instance, batches)
        events, after.unplaced = _unplaced_events(pipeline, found, cursor.unplaced)
        try:
            remembered = memory.remember(context.cursor, after, now_ms)
        except LakeIdxError as error:
            return skip_or_raise(error, "what was found cannot be written down")
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=added,
            asset_events=events,
            cursor=remembered,
            skip_reason=None if requests else _why_nothing(found, len(after.waiting), writer),
        )

    return landing_sensor


def _dated_ahead(files: Sequence[FileInfo], cursor: "LandingCursor", now_ms: int) -> list[str]:
    """Name the files that were noticed just now and are dated in the future: they count as written when they were noticed."""
    from lakeidx.dagster.sensors.planning import CLOCKS_DIFFER_MS

    ahead = [f for f in files if f.mtime_ms > now_ms + CLOCKS_DIFFER_MS]
    shown = [
        f"{f.name} ({datetime.fromtimestamp(f.mtime_ms / 1000, UTC):%Y-%m-%d %H:%M})" for f in cursor.unknown(ahead)
    ]
    return [f"dated in the future, taken all the same: {', '.join(shown)}"] if shown else []


def _requests(
    pipeline: PipelineConfig, instance: dg.DagsterInstance, batches: "Sequence[PlannedBatch]"
) -> tuple[list[dg.RunRequest], list[dg.AddDynamicPartitionsRequest]]:
    """Return the runs of batches, and the request to add the partitions of theirs that Dagster does not know yet."""
    if not batches:
        return [], []
    partitions = partitions_of(pipeline)
    known = partitions.get_partition_keys(dynamic_partitions_store=instance)
    added: list[dg.AddDynamicPartitionsRequest] = []
    fresh: list[str] = []
    if isinstance(partitions, dg.DynamicPartitionsDefinition):
        fresh = list(dict.fromkeys(k for b in batches for k in b.keys).keys() - set(known))
        fresh.sort()
        added = [partitions.build_add_request(fresh)] if fresh else []
    order = {k: i for i, k in enumerate([*known, *fresh])}
    return [r for b in batches for r in run_requests(pipeline, b, order)], added


def _newest_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> int:
    """Return the number of an asset's newest materialization; 0 when there is none."""
    records = instance.get_asset_records([asset])
    return (records[0].asset_entry.last_materialization_storage_id or 0) if records else 0


def _why_nothing(found: "FoundFiles", waiting: int, writer: dg.AssetKey | None) -> str:
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
    pipeline: PipelineConfig, found: "FoundFiles", said: str
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


def run_requests(pipeline: PipelineConfig, batch: "PlannedBatch", order: dict[str, int]) -> list[dg.RunRequest]:
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
