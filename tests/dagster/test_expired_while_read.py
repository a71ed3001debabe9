"""Pages, observations, inputs, expectations and the compaction sensor of a table whose snapshot expires while they are made.

They ended in "no such file", at one call of the store or another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.dagster.assets.expectations import table_expectation_results
from lakeidx.dagster.assets.table import table_observation, table_state
from lakeidx.dagster.io.frames import load_rows
from lakeidx.dagster.io.resources import LakeIdxTable
from lakeidx.dagster.resources import SparkResource, StoreResource, TableResource
from lakeidx.dagster.sensors.compaction import build_compaction_sensor
from lakeidx.pipeline_file.model import PipelineConfig
from tests.dagster.pipelines import pipeline_dict
from tests.kit.overtaking import Overtaken
from tests.kit.small_tables import memory_folder

pytestmark = pytest.mark.dagster


def pipeline(uri: str) -> PipelineConfig:
    wanted = [{"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}, "on": "table"}]
    given = {**pipeline_dict(Path("/landing")), "expectations": wanted}
    return PipelineConfig.model_validate({**given, "warehouse": str(Path(uri).parents[1])})


def plain(metadata: Any) -> dict[str, Any]:
    return {k: getattr(v, "value", v) for k, v in metadata.items()}


def page(uri: str) -> int:
    batch = SimpleNamespace(metadata=Table.open(uri).metadata, files=SimpleNamespace(batch_id="b"))
    metadata, version = table_state(pipeline(uri), batch, None)  # type: ignore[arg-type]
    return of_one_state(dg.MaterializeResult(metadata=metadata, data_version=version))


def of_one_state(result: dg.MaterializeResult[Any]) -> int:
    """The snapshot that all of a result is of."""
    found = plain(result.metadata)
    number = int(found["lakeidx/snapshot_id"])
    assert str(found["lakeidx/snapshot"]).endswith(f"/snapshot-{number}")
    assert found["dagster/row_count"] == {4: 5, 7: 6}[number]
    assert result.data_version is not None
    return number


def observed(uri: str) -> int:
    return int(plain(table_observation(pipeline(uri), Table.open(uri).metadata).metadata)["lakeidx/snapshot_id"])


def expected(uri: str) -> int:
    (found,) = table_expectation_results(pipeline(uri), "verification", Table.open(uri), StoreResource())
    assert found.passed
    return {5: 4, 6: 7}[plain(found.metadata)["lakeidx/rows"]]


def loaded(uri: str) -> int:
    rows = load_rows(
        Table.open(uri), pa.Table, columns=None, where=[], state={}, spark=SparkResource(), storage_options=None
    )
    return {5: 4, 6: 7}[rows.num_rows]


def looked(uri: str) -> int:
    config = pipeline(uri)
    sensor = build_compaction_sensor(config, dg.define_asset_job("j"))
    tables = TableResource(store=StoreResource())
    with dg.build_sensor_context(
        instance=dg.DagsterInstance.ephemeral(), resources={"lakeidx_tables": tables}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    (seen,) = result.asset_events
    return int(plain(seen.metadata)["lakeidx/snapshot_id"])


READERS: dict[str, Callable[[str], int]] = {
    "page": page,
    "observation": observed,
    "resource": lambda uri: of_one_state(LakeIdxTable(uri=uri).materialized()),
    "expectations": expected,
    "input": loaded,
    "sensor": looked,
}


@pytest.fixture(scope="module")
def table() -> Iterator[Overtaken]:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        yield Overtaken(Path(folder))


@pytest.mark.parametrize("name", READERS)
def test_it_is_of_the_newest_state(table: Overtaken, name: str) -> None:
    found = table.each_call(READERS[name])
    assert set(found) <= {"4", "7"}
    assert found["7"] > 5
