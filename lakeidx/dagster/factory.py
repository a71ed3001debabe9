"""Definitions of one table for Dagster, made from its pipeline file.

Parts that few tables have are imported where they are made: each run loads this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from lakeidx.dagster.assets.checks import reported_checks
from lakeidx.dagster.assets.landing import build_landing_asset, build_landing_check
from lakeidx.dagster.assets.maintenance import (
    build_upkeep_assets,
    compaction_checks,
    verification_checks,
)
from lakeidx.dagster.assets.publish import build_held_batch_job
from lakeidx.dagster.assets.stages import assignment_checks, build_stage_assets, commit_checks, ingest_checks
from lakeidx.dagster.names import (
    CHANGES,
    COMPACTION,
    LOOKUP_STORE,
    SNAPSHOT_EXPIRY,
    SYNC,
    VERIFICATION,
    asset_job_name,
    asset_key,
    asset_keys,
    batch_job_name,
    key_prefix,
    table_id,
)
from lakeidx.dagster.resources import resources_from_environment
from lakeidx.dagster.sensors.changes import build_changes_sensor
from lakeidx.dagster.sensors.compaction import build_compaction_sensor, is_queued
from lakeidx.dagster.sensors.landing import build_landing_sensor
from lakeidx.dagster.verbs.jobs import build_verb_jobs
from lakeidx.pipeline_file.feed import FeedConfig
from lakeidx.pipeline_file.model import RESOURCE_PREFIX, PipelineConfig
from lakeidx.pipeline_file.sections import AlertConfig

#: What the jobs of one asset do, of a table.
_SAID = {
    COMPACTION: "Merges the sorted runs of buckets of {} that have too many, and checks the result.",
    SNAPSHOT_EXPIRY: "Removes old snapshots of {}, and the files that only they needed.",
    VERIFICATION: "Reads all of {} and checks that its files, index and rows agree.",
    LOOKUP_STORE: "Builds lookup files for data files of {} that have none.",
    CHANGES: "Writes the changes of {} since the last run to files.",
}


@dataclass(slots=True)
class TableDefinitions:
    """The definitions of one table, or of a feed of many; `told`: who is told when a run failed, by table."""

    assets: list[Any] = field(default_factory=list)
    checks: list[dg.AssetChecksDefinition] = field(default_factory=list)
    jobs: list[Any] = field(default_factory=list)
    sensors: list[dg.SensorDefinition] = field(default_factory=list)
    schedules: list[Any] = field(default_factory=list)
    told: dict[str, Sequence[AlertConfig]] = field(default_factory=dict)


def build_table(pipeline: PipelineConfig, file: Path | None = None) -> TableDefinitions:
    """Build the assets, checks, jobs, sensors and schedules of a table.

    file   the pipeline file, which assets refer to as their source
    """
    out = TableDefinitions()
    out.assets = [build_landing_asset(pipeline), *build_stage_assets(pipeline)]
    out.checks = [build_landing_check(pipeline)]
    checks = [*ingest_checks(pipeline), *assignment_checks(pipeline), *commit_checks(pipeline)]
    if pipeline.lookup_store:
        from lakeidx.dagster.assets.lookup_store import build_lookup_asset, lookup_checks

        out.assets.append(build_lookup_asset(pipeline))
        checks += lookup_checks(pipeline)
        out.jobs.append(_own_job(pipeline, LOOKUP_STORE))
    if pipeline.changes is not None:
        from lakeidx.dagster.assets.changes import build_changes_asset

        out.assets.append(build_changes_asset(pipeline, pipeline.changes))
        job = _own_job(pipeline, CHANGES)
        out.jobs.append(job)
        out.sensors.append(build_changes_sensor(pipeline, job))
    batch = _asset_job(
        pipeline,
        batch_job_name(pipeline),
        upkeep=False,
        selection=asset_keys(pipeline),
        description=f"Reads landing files of {pipeline.table} through all stages up to a snapshot, and checks the result.",
    )
    out.jobs += [batch, build_held_batch_job(pipeline)]
    add_upkeep(out, pipeline, checks)
    out.sensors.append(build_landing_sensor(pipeline, batch))
    _tell(out, pipeline)
    return _with_source(out, file)


def build_feed(feed: FeedConfig, file: Path | None = None) -> TableDefinitions:
    """Build the assets, the job and the sensor of a feed of many tables, and the upkeep of those that are known.

    file   the pipeline file, which assets refer to as their source
    """
    from lakeidx.dagster.assets.feed import build_feed_assets, pipelines_of

    pipeline, out = feed.landing_pipeline(), TableDefinitions()
    out.assets = [build_landing_asset(pipeline), *build_feed_assets(feed)]
    out.checks = [build_landing_check(pipeline)]
    job = _asset_job(
        pipeline,
        batch_job_name(pipeline),
        upkeep=False,
        selection=[asset_key(pipeline, SYNC)],
        description=f"Brings files of the feed {feed.feed} into the tables of {feed.database}.",
    )
    out.jobs.append(job)
    out.sensors.append(build_landing_sensor(pipeline, job))
    _tell(out, pipeline)
    for table in pipelines_of(feed):
        add_upkeep(out, table)
        _tell(out, table)
    return _with_source(out, file)


def _tell(out: TableDefinitions, pipeline: PipelineConfig) -> None:
    """Note who is told of failed runs of a table, by its name and as its asset's key has it."""
    out.told |= {pipeline.table: pipeline.alerts, ".".join(key_prefix(pipeline)): pipeline.alerts}


def _asset_job(
    pipeline: PipelineConfig, name: str, *, selection: Sequence[dg.AssetKey], upkeep: bool = True, **how: Any
) -> Any:
    """Define a job whose steps share a process: one Spark session, one import of what stages need.

    Checks are not planned: steps report them, so a run stores each once, and has nothing to say of those that it does not reach.

    upkeep   a job around the batches: it leaves the queue before them, since a backlog may be hours long
    """
    tags = {"lakeidx/table": pipeline.table, **({"dagster/priority": "1"} if upkeep else {})}
    chosen = dg.AssetSelection.assets(*selection).without_checks()
    return dg.define_asset_job(name, chosen, executor_def=dg.in_process_executor, tags=tags, **how)


def _own_job(pipeline: PipelineConfig, asset: str) -> Any:
    """Define the job of one asset beside the batches."""
    said = _SAID[asset].format(pipeline.table)
    return _asset_job(
        pipeline, asset_job_name(pipeline, asset), selection=[asset_key(pipeline, asset)], description=said
    )


def add_upkeep(out: TableDefinitions, pipeline: PipelineConfig, batch_checks: Sequence[dg.AssetCheckSpec] = ()) -> None:
    """Add compaction, snapshot expiry and verification of a table, with their jobs, schedules and sensor, and all its checks; and
    the jobs of verbs.

    batch_checks   those on assets of a batch
    """
    out.assets += build_upkeep_assets(pipeline)
    checks = [*batch_checks, *compaction_checks(pipeline), *verification_checks(pipeline)]
    out.checks.append(reported_checks(pipeline, checks))
    jobs = {name: _own_job(pipeline, name) for name in (COMPACTION, SNAPSHOT_EXPIRY, VERIFICATION)}
    out.jobs += [*jobs.values(), *build_verb_jobs(pipeline)]
    out.sensors.append(build_compaction_sensor(pipeline, jobs[COMPACTION]))
    of_expiry = {"expiry": SNAPSHOT_EXPIRY, "orphans": SNAPSHOT_EXPIRY}
    for name, cron in pipeline.schedules.crons(pipeline.table).items():
        asset = of_expiry.get(name, name)
        config = {"remove_orphans": True} if name == "orphans" else {}
        schedule = _schedule(
            f"{table_id(pipeline)}__{asset if name == 'expiry' else name}_schedule",
            {"ops": {f"{table_id(pipeline)}__{asset}": {"config": config}}} if config else {},
            job=jobs[asset],
            cron_schedule=cron,
            execution_timezone=pipeline.schedules.timezone,
        )
        out.schedules.append(schedule)


def _schedule(name: str, run_config: Mapping[str, Any], **when: Any) -> dg.ScheduleDefinition:
    """Define a schedule that starts no run while one of its own waits in the queue."""

    def request(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        waits = is_queued(context.instance, "schedule", name)
        return dg.SkipReason(waits) if waits else dg.RunRequest(run_config=run_config)

    return dg.ScheduleDefinition(name, execution_fn=request, **when)


def merged_definitions(tables: Sequence[TableDefinitions], resources: Mapping[str, Any]) -> dg.Definitions:
    """Put the definitions of some tables together, for a project that has others."""
    return dg.Definitions(
        assets=[a for t in tables for a in t.assets],
        asset_checks=[c for t in tables for c in t.checks],
        jobs=[j for t in tables for j in t.jobs],
        sensors=[s for t in tables for s in t.sensors],
        schedules=[s for t in tables for s in t.schedules],
        resources=resources,
    )


@cache
def shared_resources(prefix: str = RESOURCE_PREFIX) -> dict[str, Any]:
    """Return the resources of a prefix by the environment: one set, since Dagster refuses two different ones."""
    return resources_from_environment(prefix=prefix)


def _with_source(out: TableDefinitions, file: Path | None) -> TableDefinitions:
    """Let assets refer to their pipeline file, if there is one."""
    if file is not None:
        place = dg.LocalFileCodeReference(file_path=str(file.resolve()), line_number=1, label="pipeline file")
        source = {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[place])}
        out.assets = [
            a.map_asset_specs(lambda spec: spec.merge_attributes(metadata=source))
            if isinstance(a, dg.AssetsDefinition)
            else a
            for a in out.assets
        ]
    return out
