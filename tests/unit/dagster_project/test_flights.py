"""The main job's own landing files go through its own pipeline file: `make run` depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_project.flights.prepare import prepare
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.batch.upsert import ingest_files
from lakeidx.pipeline_file.model import load_pipeline

_FLIGHTS = Path(__file__).parents[3] / "pipelines" / "flights.yaml"


@pytest.mark.slow
def test_the_flights_are_ingested_as_the_pipeline_says(tmp_path: Path) -> None:
    files = prepare(tmp_path / "landing")
    pipeline = load_pipeline(
        _FLIGHTS, environment={"LAKEIDX_LANDING": str(tmp_path), "LAKEIDX_WAREHOUSE": str(tmp_path)}
    )
    table = Table.create(f"{tmp_path}/nycflights.db/flights", pipeline.spec())
    for file in files[:2]:
        report = ingest_files(make_context(table.metadata, file.stem), [str(file)], pipeline.landing_options())
        assert (report.rows_in, report.rows_rejected) == (27_004, 0)
