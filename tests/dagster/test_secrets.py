"""Secrets of the process, and where people look: pages, run events, logs, staged files, the command line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster._core.remote_representation.external_data import RepositorySnap
from typer.testing import CliRunner

from lakeidx.cli.main import app
from lakeidx.dagster.assets.pipeline_files import CHECK
from lakeidx.dagster.folder import build_definitions
from lakeidx.dagster.io.manager import LakeIdxIOManager
from lakeidx.dagster.resources import SparkResource, StoreResource
from lakeidx.errors import InvalidInputError
from lakeidx.storage import open_store
from tests.dagster.pipelines import Deployment, merged, pipeline_dict
from tests.kit.object_server import object_server
from tests.kit.s3_server import S3Server, s3_server

__all__ = ["s3_server"]
pytestmark = pytest.mark.dagster

SECRET = "wJalrXUtnFEMI-7"
_REFERENCE = "${AWS_SECRET_ACCESS_KEY}"
#: What is changed in a pipeline file, for each place where a reference may be tried.
_PLACES: dict[str, dict[str, Any]] = {
    "description": {"description": f"see {_REFERENCE}"},
    "tags": {"tags": {"k": _REFERENCE}},
    "owners": {"owners": [f"team:{_REFERENCE}"]},
    "warehouse": {"warehouse": f"/lake/{_REFERENCE}"},
    "landing": {"landing": {"path": _REFERENCE}},
    "pattern": {"landing": {"pattern": f"*{_REFERENCE}"}},
    "options": {"options": {"data-file.prefix": _REFERENCE}},
    "default": {"options": {"data-file.prefix": f"${{LAKEIDX_WAREHOUSE_X:-{_REFERENCE}}}"}},
    "schedules": {"schedules": {"expire": _REFERENCE}},
    "values": {"partitions": {"by": "static", "values": [_REFERENCE], "key": "(.)"}},
}


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A sound pipeline whose warehouse is a variable, and beside it a file for each place."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("LAKEIDX_SPARK_CONFIG", json.dumps({"spark.authenticate.secret": SECRET}))
    monkeypatch.setenv("LAKEIDX_SPARK_REMOTE", f"sc://host:15002/;token={SECRET}")
    monkeypatch.setenv("LAKEIDX_WAREHOUSE", str(tmp_path / "wh"))
    d = Deployment(tmp_path, {"warehouse": "${LAKEIDX_WAREHOUSE}"})
    for place, changes in _PLACES.items():
        text = yaml.safe_dump(merged({**pipeline_dict(tmp_path / place), "table": f"d.{place}"}, changes))
        (tmp_path / "pipelines" / f"{place}.yaml").write_text(text, encoding="utf-8")
    return d


def _files(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.read_bytes().decode("latin-1")


def _events(d: Deployment) -> Iterator[str]:
    for run in d.instance.get_runs():
        yield dg.serialize_value(run)
        for record in d.instance.all_logs(run.run_id):
            yield dg.serialize_value(record)


def test_what_the_ui_gets_holds_none(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All that the web server gets of the code: assets, checks, jobs, sensors, resources and their settings."""
    with caplog.at_level(logging.DEBUG):
        defs = build_definitions(deployed.folder / "pipelines")
    told = dg.serialize_value(RepositorySnap.from_def(defs.get_repository_def()))
    assert "AWS_SECRET_ACCESS_KEY" in told
    assert "LAKEIDX_SPARK_CONFIG" in told
    assert SECRET not in told
    assert SECRET not in caplog.text
    check = next(c for c in defs.asset_checks or () if isinstance(c, dg.AssetChecksDefinition) and
                 {s.name for s in c.check_specs} == {CHECK})  # fmt: skip
    result = check()
    assert isinstance(result, dg.AssetCheckResult)
    left_out = {line.partition(".yaml")[0] for line in str(result.description).splitlines()}
    assert left_out == set(_PLACES)
    assert SECRET not in str(result)


@pytest.mark.s3
def test_runs_on_an_object_store_leave_none_behind(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The secret by which the store was reached: runs that succeed and fail, their metadata and logs, and what they put there."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKEIDX_SECRET_LANDING", s3_server.secret)
    options = {"endpoint_url": s3_server.endpoint_url, "key": s3_server.key, "secret": "${LAKEIDX_SECRET_LANDING}"}
    home = s3_server.fresh_uri("wh")
    d = Deployment(tmp_path, {"warehouse": home, "landing": {"path": f"{home}/in", "storage_options": options}})
    store = open_store(home, s3_server.storage_options)
    store.put(f"{home}/in/a.parquet", d.land("a.parquet", [(1, k, "row") for k in range(5)]).read_bytes())
    store.put(f"{home}/in/b.parquet", b"no Parquet")
    with caplog.at_level(logging.DEBUG):
        assert d.run("a.parquet").success
        assert not d.run("b.parquet", raise_on_error=False).success
        assert d.run_asset("verification").success
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        assert not d.run_asset("verification").success
    told = dg.serialize_value(RepositorySnap.from_def(d.defs.get_repository_def()))
    put = [store.get(f.path).decode("latin-1") for f in store.walk(home)]
    seen = [told, *_events(d), *put, *_files(tmp_path), caplog.text]
    assert len(put) > 5
    assert [text[:200] for text in seen if s3_server.secret in text] == []


@pytest.mark.slow
def test_assets_of_the_io_manager_leave_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Storage options of a resource: in the run's events and metadata, what the UI gets, and an error."""
    monkeypatch.setenv("LAKE_SECRET", SECRET)

    @dg.asset(io_manager_key="lake", metadata={"primary_keys": ["k"]})
    def first() -> pa.Table:
        return pa.table({"k": [1, 2]})

    @dg.asset(io_manager_key="lake", metadata={"primary_keys": ["k"]})
    def second(first: pa.Table) -> pa.Table:
        return first

    with object_server() as server, dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        key, secret = "k", dg.EnvVar("LAKE_SECRET")
        store = StoreResource(
            endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
        )
        resources = {"lake": LakeIdxIOManager(warehouse="s3://b/wh", store=store)}
        defs = dg.Definitions(assets=[first, second], resources=resources)
        with caplog.at_level(logging.DEBUG):
            assert dg.materialize([first, second], instance=instance, resources=resources).success
            server.act = lambda number, kind, key: 403
            assert not dg.materialize([first], instance=instance, resources=resources, raise_on_error=False).success
        seen = [dg.serialize_value(RepositorySnap.from_def(defs.get_repository_def())), caplog.text]
        for run in instance.get_runs():
            seen += [dg.serialize_value(run), *(dg.serialize_value(r) for r in instance.all_logs(run.run_id))]
        seen += [data.decode("latin-1") for data, _, _ in server.objects.values()]
    assert len(seen) > 30
    assert [text[:200] for text in seen if SECRET in text] == []


def test_runs_leave_none_behind(deployed: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    """Runs that succeed and that fail: their events, tags, logs and every file of the warehouse."""
    d = deployed
    d.land("a.parquet", [(1, k, "row") for k in range(5)])
    (d.landing / "b.parquet").write_bytes(b"no Parquet")
    with caplog.at_level(logging.DEBUG):
        assert d.run("a.parquet").success
        assert not d.run("b.parquet", raise_on_error=False).success
        assert d.run_asset("verification").success
    seen = [*_events(d), *_files(d.folder / "wh"), caplog.text]
    assert any("LAKEIDX" in text or "wh/d.db/t" in text for text in seen)
    assert [text[:200] for text in seen if SECRET in text] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["table", "show", "TABLE"],
        ["scan", "TABLE", "--where", "k > 3", "--explain"],
        ["snapshots", "TABLE"],
        ["inspect", "TABLE/schema/schema-0"],
        ["scan", "TABLE/none"],
        ["upsert", "TABLE", "${AWS_SECRET_ACCESS_KEY}.csv"],
        ["table", "create", "${LAKEIDX_WAREHOUSE}/x", "--schema", "${AWS_SECRET_ACCESS_KEY}"],
    ],
    ids=lambda a: " ".join(a[:2]),
)
def test_the_command_line_prints_none(deployed: Deployment, arguments: list[str]) -> None:
    """Nothing is looked up in the environment on a command line, and errors quote what was given."""
    deployed.land("a.parquet", [(1, k, "row") for k in range(5)])
    assert deployed.run("a.parquet").success
    result = CliRunner().invoke(app, ["-v", *(a.replace("TABLE", deployed.config.uri) for a in arguments)])
    assert SECRET not in result.output
    assert SECRET not in str(result.exception)


def test_spark_settings_that_are_no_json_are_not_quoted() -> None:
    with pytest.raises(InvalidInputError, match="LAKEIDX_SPARK_CONFIG") as caught:
        SparkResource(spark_config_json=f'{{"spark.secret": {SECRET}').runner("s3://a/b").map(len, [[1]], label="x")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
