"""A pipeline file that was left out, a landing file without a partition, wrong credentials and failed checks did not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakeidx.dagster.assets.checks import failure_text
from lakeidx.dagster.assets.pipeline_files import ASSET, CHECK
from lakeidx.dagster.folder import build_definitions
from lakeidx.dagster.resources import StoreResource
from lakeidx.errors import CorruptFileError, LakeIdxError
from lakeidx.quality.file_rules import check_referenced_files
from tests.dagster.pipelines import Deployment
from tests.dagster.test_sensors import land, tick

pytestmark = pytest.mark.dagster


def _sensor(defs: dg.Definitions, name: str) -> dg.SensorDefinition:
    return next(s for s in defs.sensors or () if s.name == name)


def _run_check(defs: dg.Definitions, name: str, **resources: Any) -> dg.AssetCheckResult:
    checks = [c for c in defs.asset_checks or () if isinstance(c, dg.AssetChecksDefinition)]
    check = next(c for c in checks if {s.name for s in c.check_specs} == {name})
    result = check(dg.build_asset_check_context(resources=resources)) if resources else check()
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_a_pipeline_file_that_is_left_out(tmp_path: Path) -> None:
    """The check fails with all problems of the file; the sensor that reports it is on and says it once."""
    d = Deployment(tmp_path)
    (tmp_path / "pipelines" / "bad.yaml").write_text("table: x\nfieldz: []\n")
    defs = build_definitions(tmp_path / "pipelines", spark=d.spark)
    result = _run_check(defs, CHECK)
    assert not result.passed
    lines = str(result.description).splitlines()
    assert [line.partition(": line ")[0] for line in lines] == ["bad.yaml"] * len(lines)
    for problem in (
        "write the table as database.table",
        "unknown key 'fieldz'; did you mean 'fields'?",
        "'landing' is missing",
    ):
        assert sum(problem in line for line in lines) == 1
    sensor = _sensor(defs, "lakeidx__pipeline_files_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    with dg.build_sensor_context(instance=d.instance) as context:
        first = sensor(context)
    assert isinstance(first, dg.SensorResult)
    (event,) = first.asset_events or ()  # type: ignore[misc]
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert (event.asset_key, event.check_name, event.passed) == (ASSET, CHECK, False)
    assert event.description == result.description
    with dg.build_sensor_context(instance=d.instance, cursor=first.cursor) as context:
        again = sensor(context)
    assert isinstance(again, dg.SensorResult)
    assert not again.asset_events
    repository = defs.get_repository_def()
    assert "unknown key" in str(repository.asset_graph.get(ASSET).description)


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster was started elsewhere, or a name has a slip: nothing loads, which must not look as if all were well."""
    monkeypatch.chdir(tmp_path)
    result = _run_check(build_definitions(Path("pipelines")), CHECK)
    assert not result.passed
    assert result.description == f"{tmp_path}/pipelines: there is no such folder"


def test_all_files_loaded(tmp_path: Path) -> None:
    """The same check passes."""
    result = _run_check(Deployment(tmp_path).defs, CHECK)
    assert result.passed
    assert result.description == "All 1 pipeline files are loaded."


def test_a_landing_file_that_belongs_to_no_partition(tmp_path: Path) -> None:
    """Counted by the sensor, reported once as a failed check, and as a passed one when the file is gone."""
    partitions = {"by": "static", "values": ["a", "b"], "key": "^(\\w+)-"}
    d = Deployment(tmp_path, {"partitions": partitions})
    land(d, "a-1", "notes", "z-1")
    name = "d__t__landing_sensor"
    first = tick(d, name)
    (event,) = first.asset_events or ()  # type: ignore[misc]
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert not event.passed
    assert "notes.parquet, z-1.parquet" in str(event.description)
    again = tick(d, name, first.cursor)
    assert not again.asset_events
    assert "2 more match the pattern and no partition" in str(again.skip_reason)
    result = _run_check(d.defs, "landing_files_have_partitions", lakeidx_store=StoreResource())
    assert not result.passed
    assert "2 files match" in str(result.description)
    for file in ("notes", "z-1"):
        (d.landing / f"{file}.parquet").unlink()
    after = tick(d, name, again.cursor)
    assert [e.passed for e in after.asset_events or () if isinstance(e, dg.AssetCheckEvaluation)] == [True]


def test_sensors_skip_only_what_may_pass(tmp_path: Path) -> None:
    """A damaged snapshot fails the tick instead of looking like "nothing to do"."""
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a")])
    d.run("a.parquet")
    for file in (tmp_path / "wh").rglob("snapshot-1"):
        file.write_bytes(b"{")
    with pytest.raises(CorruptFileError):
        tick(d, "d__t__compaction_sensor")


def test_wrong_credentials_fail_the_tick(tmp_path: Path) -> None:
    """A store that says no is no reason to skip."""
    d = Deployment(tmp_path)

    class Refusing(StoreResource):
        def open(self, uri: str, options: Any = None) -> Any:
            raise LakeIdxError("the store says: access denied", path=uri)

    definition = _sensor(d.defs, "d__t__landing_sensor")
    with (
        dg.build_sensor_context(instance=d.instance, resources={"lakeidx_store": Refusing()}) as context,
        pytest.raises(LakeIdxError, match="access denied"),
    ):
        definition(context)


def test_failed_checks_say_what_failed() -> None:
    """Not the rule in the affirmative."""
    result = check_referenced_files({"a": 1, "b": 2}, {"a": 1})
    text = failure_text(result, ["files_missing = 1 (at most 0)"])
    assert text.startswith("FAILED: files_missing = 1 (at most 0); first: file b, fault missing, size 2. Expected: ")
