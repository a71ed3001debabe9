"""Spark data frames through the IO manager: written by their tasks, read with columns and conditions handed down.

Dagster reads the annotations of assets when they are defined, so they are real types here, not postponed texts.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakeidx
from lakeidx.dagster import LakeIdxIOManager
from lakeidx.dagster.resources import SparkResource

pytestmark = pytest.mark.spark

COLUMNS = "day STRING, k LONG"


def test_data_frames_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    days = dg.StaticPartitionsDefinition(["mon", "tue"])
    rows: dict[str, list[tuple[str, int]]] = {"mon": [("mon", 1), ("mon", 2)], "tue": [("tue", 3)]}
    metadata = {
        "write_mode": "overwrite",
        "partition_expr": "day",
        "partition_keys": ["day"],
        "primary_keys": ["day", "k"],
    }
    seen: list[Any] = []

    @dg.asset(key_prefix="d", partitions_def=days, metadata=metadata)
    def t(context: dg.AssetExecutionContext) -> DataFrame:
        return spark.createDataFrame(rows[context.partition_key], COLUMNS)

    @dg.asset(ins={"t": dg.AssetIn(key=["d", "t"], metadata={"columns": ["k"]})}, partitions_def=days)
    def read(t: DataFrame) -> None:
        assert t.columns == ["k"]
        seen.append(sorted(r.k for r in t.collect()))

    @dg.asset(name="t", key_prefix="d", metadata={"write_mode": "delete"})
    def deleted() -> DataFrame:
        return spark.createDataFrame([("mon", 2)], COLUMNS)

    manager = LakeIdxIOManager(warehouse=f"{tmp_path}/wh", spark=SparkResource(master="local[2]"))

    def run(*assets: Any, key: str | None = None) -> dict[str, Any]:
        done = dg.materialize(list(assets), resources={"io_manager": manager}, partition_key=key)
        assert done.success
        return {k: v.value for k, v in done.get_asset_materialization_events()[0].materialization.metadata.items()}

    assert run(t, read, key="mon")["lakeidx/inserts"] == 2
    run(t, read, key="tue")
    rows["tue"] = []
    run(t, read, key="tue")
    assert seen == [[1, 2], [3], []]
    assert run(deleted)["lakeidx/deletes"] == 1
    table = lakeidx.Table.open(f"{tmp_path}/wh/d.db/t")
    assert table.scan().to_arrow().to_pylist() == [{"day": "mon", "k": 1}]
