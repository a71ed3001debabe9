"""The checks after a batch, beside the upsert that they check: a batch from all over a table of many buckets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.growth.points import Point, filled, make_table, rows
from bench.scale.figure import Clock, Figure, in_new_process
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.checks.of_batch import batch_results
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner

BATCH, BUCKETS, ROUNDS = 100_000, 2_000, 3


def measure(keys: int, folder: Path) -> list[Figure]:
    """Upsert known keys into all buckets, and check that batch, each in a process of its own; the least of each counts."""
    uri = filled(folder, Point("buckets", BUCKETS, keys=keys, buckets=BUCKETS))
    upserts, checks = [], []
    for turn in range(ROUNDS):
        upserts.append(in_new_process(upserted, uri, keys, turn))
        checks.append(in_new_process(checked, uri, keys, turn))
    in_new_process(lost_hashes_are_found, uri, ROUNDS - 1)
    upsert, check = (min(figures, key=lambda f: f.cpu_seconds) for figures in (upserts, checks))
    mib = max(figure.mib or 0 for figure in checks)
    return [upsert, replace(check, mib=mib, times_upsert=check.cpu_seconds / upsert.cpu_seconds)]


def upserted(uri: str, keys: int, turn: int) -> Figure:
    """Upsert."""
    _warm(uri, f"upsert_{turn}")
    known = np.random.default_rng(turn).choice(keys, min(BATCH, keys), replace=False)
    context = make_context(TableHandle.open(uri).metadata, f"b{turn}", runner=LocalRunner(2))
    clock = Clock()
    result = upsert_table(context, rows(known, 1, turn + 1))
    seconds, cpu = clock.seconds()
    if (result.assign.updates, result.write.rows_written) != (len(known), len(known)):
        raise AssertionError(f"{result.assign.updates} of {len(known)} known keys were found")
    return Figure(f"{len(known):,} keys into {BUCKETS:,} buckets of {keys:,}", seconds, cpu, mib=clock.mib())


def checked(uri: str, keys: int, turn: int) -> Figure:
    """Check."""
    _warm(uri, f"check_{turn}")
    config = _config(uri)
    clock = Clock()
    results = _results(config, uri, f"b{turn}")
    seconds, cpu = clock.seconds()
    if red := [r.name for r in results if not r.passed]:
        raise AssertionError(f"checks of a sound table are red: {red}")
    case = f"checks after {min(BATCH, keys):,} keys into {BUCKETS:,} buckets of {keys:,}"
    return Figure(case, seconds, cpu, mib=clock.mib())


def lost_hashes_are_found(uri: str, turn: int) -> None:
    """Cut hashes off the index files: the checks must turn red."""
    for file in Path(uri).rglob("index-*"):
        if not file.name.startswith("index-manifest"):
            file.write_bytes(file.read_bytes()[4:])
    if all(r.passed for r in _results(_config(uri), uri, f"b{turn}")):
        raise AssertionError("lost hashes are not found")


def _results(config: PipelineConfig, uri: str, batch_id: str) -> Any:
    return batch_results(config, make_context(TableHandle.open(uri).metadata, batch_id)).results


def _config(uri: str) -> PipelineConfig:
    """Return the pipeline file of a table, as far as its checks need one."""
    table = TableHandle.open(uri)
    schema = table.schema
    made = {
        "table": f"b.{Path(uri).name}",
        "warehouse": str(Path(uri).parents[1]),
        "landing": {"path": str(Path(uri).parents[2]), "pattern": "*.parquet"},
        "fields": [{"name": f.name, "type": str(f.type)} for f in schema.fields],
        "primaryKeys": list(schema.primary_keys),
        "partitionKeys": list(schema.partition_keys),
        "options": dict(schema.options),
    }
    return PipelineConfig.model_validate(made)


def _warm(uri: str, name: str) -> None:
    """Compile and import what a batch and its checks need."""
    warm = make_table(Path(uri).parents[2], Point("buckets", 1), f"warm_{name}")
    for turn in range(2):
        upsert_table(make_context(warm.metadata, f"w{turn}", runner=LocalRunner(2)), rows(np.arange(1000), 1, 0))
    _results(_config(warm.uri), warm.uri, "w1")
