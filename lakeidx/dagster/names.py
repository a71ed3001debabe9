"""Names of a table's objects in Dagster: asset keys, partitions, jobs, pools. Pure; characters that Dagster refuses become `_`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import PipelineConfig

STAGES = ("ingest", "bucket_assignment", "index_write", "commit")
LANDING, LOOKUP_STORE, COMPACTION = "landing", "lookup_store", "compaction"
HELD_BATCH = "held_batch"
DELETE_ROWS, UPDATE_ROWS, MERGE_ROWS = "delete_rows", "update_rows", "merge_rows"
DROP_PARTITIONS, ROLL_BACK, CALL_PROCEDURE = "drop_partitions", "roll_back", "call_procedure"
SNAPSHOT_EXPIRY, VERIFICATION = "snapshot_expiry", "verification"
CHANGES = "changes"
#: The step that materializes the last stage and the table; names of steps begin with the table's.
COMMIT_STEP = "commit"
#: The step of a table that is the only asset of its batches: all stages.
LOAD_STEP = "load"
#: The step of a feed that brings a file into its tables.
SYNC = "sync"
#: The table itself, whose key is its database and name: what other teams depend on.
TABLE = ""

_FORMATS = {"daily": "%Y-%m-%d", "hourly": "%Y-%m-%d-%H", "monthly": "%Y-%m"}


def _dagster_name(name: str) -> str:
    """Make a name of ASCII letters, digits and underscores; different names stay different."""
    safe = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return safe if safe == name else f"{safe}_{zlib.crc32(name.encode()):08x}"


def key_prefix(config: PipelineConfig) -> list[str]:
    """Return the asset key prefix of a table: database, table."""
    return [_dagster_name(config.database), _dagster_name(config.table_name)]


def table_group(config: PipelineConfig) -> str:
    """Return the group of the table's own asset."""
    return config.groups.table or _dagster_name(config.database)


def stages_group(config: PipelineConfig) -> str:
    """Return the group of the assets before and around the table."""
    return config.groups.stages or f"{_dagster_name(config.database)}_stages"


def table_id(config: PipelineConfig) -> str:
    """Return one word for the table, for names of jobs, sensors and partitions."""
    return "__".join(key_prefix(config))


def asset_key(config: PipelineConfig, name: str) -> dg.AssetKey:
    """Return the key of one of a table's assets; of the table itself for `TABLE`, and for stages that are inside it."""
    inside = not name or (config.lineage == "table" and name in STAGES)
    return dg.AssetKey([*key_prefix(config), *([] if inside else [name])])


def table_key(database: str, table: str) -> dg.AssetKey:
    """Return the key of a table that no pipeline file of its own describes."""
    return dg.AssetKey([_dagster_name(database), _dagster_name(table)])


def asset_keys(config: PipelineConfig, stages: Sequence[str] = (*STAGES, TABLE)) -> list[dg.AssetKey]:
    """Return the keys of some of a table's assets."""
    return list(dict.fromkeys(asset_key(config, s) for s in stages))


def pool_name(config: PipelineConfig) -> str:
    """Name the pool whose one slot runs the batches of a table one after another."""
    return "_".join(["lakeidx", *key_prefix(config)])


def upkeep_pool_name(config: PipelineConfig) -> str:
    """Name the pool of what is done around a table's batches: it has a slot of its own, so neither waits for the other."""
    return f"{pool_name(config)}/upkeep"


def batch_job_name(config: PipelineConfig) -> str:
    """Name of the job that takes a batch through its stages."""
    return f"{table_id(config)}__batch"


def partitions_of(config: PipelineConfig) -> dg.PartitionsDefinition:
    """Return the partitions of the table's batches, by the pipeline file: by landing file, time or fixed values."""
    partitions = config.partitions
    if partitions.by == "files":
        return dg.DynamicPartitionsDefinition(name=f"{table_id(config)}__files")
    if partitions.by == "static":
        return dg.StaticPartitionsDefinition(list(partitions.values))
    if partitions.start is None:
        raise InvalidInputError(f"partitions by {partitions.by} need 'start'")
    cron = {"daily": "0 0 * * *", "hourly": "0 * * * *", "monthly": "0 0 1 * *"}[partitions.by]
    form = _FORMATS[partitions.by]
    start = datetime.fromisoformat(partitions.start).strftime(form)
    # Files of the hour, day or month that is running come in before it ends, so its partition exists from its start on.
    return dg.TimeWindowPartitionsDefinition(start=start, fmt=form, cron_schedule=cron, end_offset=1)


def writer_of_files(config: PipelineConfig) -> dg.AssetKey | None:
    """Return the asset whose materializations bring landing files that are partitions of their own, which the landing sensor adds;
    None without one, and where it has the table's partitions: automation starts their batches then.
    """
    if config.landing.asset is None or config.partitions.by != "files":
        return None
    return dg.AssetKey.from_user_string(config.landing.asset)


def asset_job_name(config: PipelineConfig, asset: str) -> str:
    """Name of the job that runs one asset around a table; not the asset's own, which its op has."""
    return f"{table_id(config)}__{asset}_job"
