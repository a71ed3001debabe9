"""Decisions 5 and 6: what finds a fault, and what Great Expectations costs over rows and over metrics.

A table has one hash cut off an index file: the rules over its bucket must find that, and those over the whole table, too; a sample
of keys finds it when it draws the key. Great Expectations judges the rules' metrics, and the same keys as a frame of rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Read by the library when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import great_expectations.expectations as gxe
import numpy as np
import pandas as pd
import pyarrow as pa
from great_expectations.data_context.types.base import ProgressBarsConfig

from bench.decisions.figure import Figure, cpu_seconds
from lakeidx import Table
from lakeidx.dagster.expectations.of_rules import judge_rules
from lakeidx.dagster.expectations.verdicts import judge
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner

SAMPLE, DRAWS = 1_000, 2_000


def make_table(rows: int, folder: Path) -> str:
    """Make a table in four partitions of two buckets each."""
    uri = str(folder / "wh/d.db/t")
    fields = [("p", "INT NOT NULL"), ("k", "BIGINT NOT NULL"), ("v", "BIGINT")]
    spec = {
        "fields": [{"name": n, "type": t} for n, t in fields],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": str(rows // 8)},
    }
    keys = np.arange(rows, dtype=np.int64)
    batch = pa.table({"p": pa.array((keys % 4).astype(np.int32)), "k": keys, "v": keys})
    Table.create(uri, spec).upsert(batch, batch_id="load")
    return uri


def measure(rows: int, rounds: int, folder: Path) -> list[Figure]:
    """Cost and what is found, of each way."""
    uri = make_table(rows, folder)
    metadata = TableHandle.open(uri).metadata
    scope = load_evidence(metadata).scope
    broken = scope[0]

    def of_bucket() -> list[Any]:
        return verify(load_evidence(metadata, buckets=[broken], runner=LocalRunner(1)))

    def of_table() -> list[Any]:
        return verify(load_evidence(metadata, runner=LocalRunner(1)))

    out = []
    for way, chosen, work in (
        ("rules over the buckets a batch touched", True, of_bucket),
        ("rules over the whole table after each batch", False, of_table),
    ):
        seconds, results = cpu_seconds(work, rounds)
        if not all(r.passed for r in results):
            sys.exit(f"{way}: a sound table fails")
        out.append(
            Figure(5, way, chosen, f"1 of {len(scope)} buckets touched, {rows:,} keys", round(seconds, 3), "CPU s")
        )
        cut_one_hash(metadata, broken)
        found = {r.name for r in work() if not r.passed}
        restore(metadata, broken)
        if "live_keys_indexed" not in found:
            sys.exit(f"{way}: a lost hash is not found")
        out.append(Figure(5, way, chosen, "faults of one hash that are found", 100.0, "%"))
    draws = np.random.default_rng(5).integers(0, rows // len(scope), (DRAWS, SAMPLE))
    share = 100.0 * float((draws == 0).any(axis=1).mean())
    out.append(
        Figure(
            5,
            f"a sample of {SAMPLE:,} keys of the bucket",
            False,
            "faults of one hash that are found",
            round(share, 2),
            "%",
        )
    )
    return out + expectations(of_bucket(), rows, rounds)


_KEPT: dict[str, bytes] = {}


def _index_file(metadata: Any, bucket: tuple[bytes, int]) -> Path:
    snapshot = metadata.latest_snapshot()
    entries = metadata.index_manifest(snapshot.index_manifest)
    entry = next(e for e in entries if (e.partition, e.bucket) == bucket)
    return next(Path(metadata.paths.root).rglob(entry.file_name))


def cut_one_hash(metadata: Any, bucket: tuple[bytes, int]) -> None:
    """Drop the first hash of a bucket's index file."""
    file = _index_file(metadata, bucket)
    _KEPT[str(file)] = file.read_bytes()
    file.write_bytes(_KEPT[str(file)][4:])


def restore(metadata: Any, bucket: tuple[bytes, int]) -> None:
    """Write the index file as it was."""
    file = _index_file(metadata, bucket)
    file.write_bytes(_KEPT.pop(str(file)))


def expectations(results: list[Any], rows: int, rounds: int) -> list[Figure]:
    """Time Great Expectations over metrics and over rows, and its import."""
    limits = ChecksConfig()
    index = {(bytes([p]), 0): np.arange(p, rows, 4, dtype=np.int32) for p in range(4)}
    frame = pd.DataFrame({"p": np.arange(rows) % 4, "k": np.arange(rows)})
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = (
        context.data_sources.add_pandas("rows").add_dataframe_asset("keys").add_batch_definition_whole_dataframe("b")
    )
    suite = gx.ExpectationSuite(
        name="keys",
        expectations=[
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["p", "k"]),
            gxe.ExpectColumnValuesToNotBeNull(column="p"),
            gxe.ExpectColumnValuesToNotBeNull(column="k"),
        ],
    )

    def over_figures() -> bool:
        return all(r.success for r in judge_rules(results, limits, {}))

    def over_hashes() -> bool:
        return all(r.success for r in judge_rules(results, limits, index))

    def by_limits() -> bool:
        return all(v.passed for v in judge(results, limits).values())

    def over_rows() -> bool:
        return bool(batch.get_batch(batch_parameters={"dataframe": frame}).validate(suite).success)

    out = []
    for way, chosen, work, what in (
        ("figures against their limits, without the library", True, by_limits, f"verdicts on {len(results)} rules"),
        ("Great Expectations over the figures, for its page", True, over_figures, f"verdicts on {len(results)} rules"),
        ("the same, and over the hash index as rows", True, over_hashes, f"{rows:,} hashes are each in one bucket"),
        (
            "Great Expectations over rows in pandas",
            False,
            over_rows,
            f"keys unique and not null, {rows:,} rows in memory",
        ),
    ):
        seconds, passed = cpu_seconds(work, rounds)
        if not passed:
            sys.exit(f"{way}: a sound table fails")
        out.append(Figure(6, way, chosen, what, round(seconds, 4), "CPU s"))
    code = "import time; s = time.process_time(); import great_expectations; print(time.process_time() - s)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    out.append(
        Figure(6, "import of Great Expectations", True, "once per process", round(float(done.stdout), 2), "CPU s")
    )
    return out
