"""A small pipeline for tests: its file, its landing files, and runs of it through Dagster in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lakeidx.api.table import Table
from lakeidx.dagster.folder import build_definitions
from lakeidx.dagster.names import LOAD_STEP, asset_job_name, asset_keys, batch_job_name, partitions_of, table_id
from lakeidx.dagster.resources import SparkResource
from lakeidx.pipeline_file.model import PipelineConfig, load_pipeline

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
Row = tuple[int, int, str | None]


@dataclass
class Deployment:
    """A folder with a pipeline file, landing files and a warehouse, and a Dagster instance.

    planned   batches run as "Materialize" and backfills start them, whose runs plan all checks; else by the batch's job
    """

    folder: Path
    changes: Mapping[str, Any] = field(default_factory=dict)
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    spark: SparkResource = field(default_factory=lambda: SparkResource(engine="local", parallelism=1))
    planned: bool = False

    def __post_init__(self) -> None:
        (self.folder / "pipelines").mkdir(parents=True, exist_ok=True)
        self.landing.mkdir(parents=True, exist_ok=True)
        file = self.folder / "pipelines" / "t.yaml"
        file.write_text(yaml.safe_dump(merged(pipeline_dict(self.folder), self.changes)), encoding="utf-8")
        self.config: PipelineConfig = load_pipeline(file)
        self.defs = build_definitions(self.folder / "pipelines", spark=self.spark)

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def table(self) -> Table:
        return Table.open(self.config.uri)

    def land(
        self, name: str, rows: Sequence[Row], kinds: Sequence[str] | None = None, *, mtime: float | None = None
    ) -> Path:
        """Put a landing file, whole at once."""
        columns: dict[str, Any] = {
            "p": pa.array([r[0] for r in rows], pa.int32()),
            "k": pa.array([r[1] for r in rows], pa.int64()),
            "v": pa.array([r[2] for r in rows], pa.string()),
        }
        if kinds is not None:
            columns["_kind"] = pa.array(list(kinds), pa.string())
        path = self.landing / name
        pq.write_table(pa.table(columns), path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def know(self, *keys: str) -> None:
        """Add partitions of a pipeline by files."""
        partitions = partitions_of(self.config)
        if isinstance(partitions, dg.DynamicPartitionsDefinition):
            self.instance.add_dynamic_partitions(str(partitions.name), list(keys))

    def run(
        self,
        *keys: str,
        overwrite: str | None = None,
        raise_on_error: bool = True,
        selection: Sequence[str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Run the batch job for one partition, for the range from the first to the last key, or without any."""
        self.know(*keys)
        config: dict[str, Any] = dict(QUIET)
        if overwrite is not None:
            step = LOAD_STEP if self.config.lineage == "table" else "ingest"
            config["ops"] = {f"{table_id(self.config)}__{step}": {"config": {"overwrite": overwrite}}}
        job: Any = self.defs.resolve_job_def(batch_job_name(self.config))
        where: dict[str, Any] = {"partition_key": keys[0]} if keys else {}
        if len(keys) > 1:
            where = {
                "tags": {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
            }
        chosen = None
        if self.planned:
            job, chosen = self.defs.resolve_implicit_global_asset_job_def(), asset_keys(self.config)
        if selection is not None:
            chosen = [dg.AssetKey([*table_id(self.config).split("__"), s]) for s in selection]
        done: dg.ExecuteInProcessResult = job.execute_in_process(
            run_config=config, instance=self.instance, raise_on_error=raise_on_error, asset_selection=chosen, **where
        )
        return done

    def run_asset(self, name: str, **config: Any) -> dg.ExecuteInProcessResult:
        """Run the job of an asset without partitions."""
        job = self.defs.resolve_job_def(asset_job_name(self.config, name))
        settings = {**QUIET, "ops": {f"{table_id(self.config)}__{name}": {"config": config}}} if config else QUIET
        return job.execute_in_process(run_config=settings, instance=self.instance, raise_on_error=False)

    def content(self) -> dict[tuple[int, int], str | None]:
        """All rows as (p, k) -> v; AssertionError when a key comes twice."""
        found = self.table.scan().to_arrow().to_pylist()
        out = {(r["p"], r["k"]): r["v"] for r in found}
        assert len(out) == len(found), "a key came twice"
        return out


def pipeline_dict(folder: Path) -> dict[str, Any]:
    """The pipeline file of the tests as a dictionary."""
    return {
        "table": "d.t",
        "warehouse": str(folder / "wh"),
        "description": "A table of the tests.",
        "landing": {"path": str(folder / "landing"), "pattern": "*.parquet", "settle_seconds": 0},
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": -1, "dynamic-bucket.target-row-num": 10},
        "retries": {"max_retries": 1, "delay_seconds": 0},
    }


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings within are merged, anything else replaced."""
    out = dict(base)
    for key, value in changes.items():
        out[key] = (
            merged(base[key], value) if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        )
    return out


def metrics(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    """Metadata of an asset's materialization in a run, by the last part of its name."""
    events = [e for e in result.get_asset_materialization_events() if e.asset_key and e.asset_key.path[-1] == asset]
    return {k.split("/")[-1]: v.value for k, v in events[-1].materialization.metadata.items()} if events else {}


def red_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    """Names of the checks that failed."""
    return {e.check_name for e in result.get_asset_check_evaluations() if not e.passed}
