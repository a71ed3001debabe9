"""The Dagster UI of a fresh deployment, and a headless Chromium that looks at it.

Pictures go to a scratch folder, or to LAKEIDX_SCREENSHOTS (``docs/images`` renews those of the documentation).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports

CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NOWHERE = "about:blank"


@dataclass(frozen=True)
class DagsterUI:
    """A running web server and daemon."""

    url: str
    work: Path
    pictures: Path
    pid: int

    def listens_on(self) -> set[str]:
        """Addresses on which its processes take connections."""
        first = psutil.Process(self.pid)
        open_sockets = [c for p in (first, *first.children(recursive=True)) for c in p.net_connections("tcp")]
        return {c.laddr.ip for c in open_sockets if c.status == psutil.CONN_LISTEN}

    def ask(self, query: str, **variables: Any) -> Any:
        """Answer of the GraphQL interface."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=HANGS_SECONDS) as response:
            return json.load(response)["data"]

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first."""
        return list(
            self.ask("{runsOrError {... on Runs {results {runId status pipelineName tags {key value}}}}}")[
                "runsOrError"
            ]["results"]
        )

    def wait_for_runs(self, page: Any, count: int, *, job: str, may_fail: bool = False) -> list[dict[str, Any]]:
        """Wait until so many runs of a job have ended; its runs, newest first. AssertionError when one fails that may not.

        The page is left as soon as they are there: it would be drawn, and ask the server, for as long as they take.
        """
        end = time.monotonic() + HANGS_SECONDS
        while time.monotonic() < end:
            mine = [r for r in self.runs() if r["pipelineName"] == job]
            assert may_fail or not [r for r in mine if r["status"] in ("FAILURE", "CANCELED")], mine
            if len(mine) >= count:
                if page.url != _NOWHERE:
                    page.goto(_NOWHERE)
                if all(r["status"] in ("SUCCESS", "FAILURE", "CANCELED") for r in mine):
                    return mine
            time.sleep(0.5)
        raise AssertionError(f"{count} runs of {job} were to end; there are {self.runs()}")


@pytest.fixture(scope="session")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterUI]:
    """What `make ui-demo` starts, over landing files of flights, ended by Ctrl-C."""
    from dagster_project.flights.prepare import read_flights

    work = tmp_path_factory.mktemp("ui")
    write_landing_files(work / "landing" / "flights", read_flights())
    with serve(work, "--module", "dagster_project.definitions", LAKEIDX_DEMO="1") as served:
        yield served


@contextmanager
def serve(work: Path, *arguments: str, **variables: str) -> Iterator[DagsterUI]:
    """Start the UI over a work folder; end it by Ctrl-C."""
    (port,) = free_ports(1)
    pictures = Path(os.environ.get("LAKEIDX_SCREENSHOTS", work / "pictures"))
    pictures.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEIDX_LAND", "LAKEIDX_WARE", "DAGSTER"))}
    command = [sys.executable, "-m", "lakeidx.dagster.ui", *arguments, "--work", str(work), "--port", str(port)]
    with (work / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**environment, "LAKEIDX_ENGINE": "local", **variables}
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/server_info", process, work / "ui.log")
        yield DagsterUI(f"http://127.0.0.1:{port}", work, pictures, process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(HANGS_SECONDS)
    assert code == 0, (work / "ui.log").read_text()[-2000:]
    end = time.monotonic() + HANGS_SECONDS
    while _answers(port):
        assert time.monotonic() < end, "the web server outlived Ctrl-C"
        time.sleep(0.1)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_landing_files(folder: Path, flights: Any) -> None:
    """Two files each of the first two months, a few thousand flights each."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for month in (1, 2):
        rows = flights.filter(pc.equal(flights.column("month"), month)).slice(0, 6000)
        status = pa.array(["scheduled"] * rows.num_rows)
        at = rows.schema.get_field_index("status")
        pq.write_table(rows.set_column(at, "status", status), folder / f"2013-{month:02d}-1-scheduled.parquet")
        pq.write_table(rows, folder / f"2013-{month:02d}-2-actual.parquet")


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a web server answers."""
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=HANGS_SECONDS):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"the UI did not start: {log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def page() -> Iterator[Any]:
    """A page of a headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=chromium, args=list(CHROMIUM_FLAGS), timeout=1000 * HANGS_SECONDS
        )
        page = browser.new_page(viewport={"width": 1500, "height": 950}, reduced_motion="reduce")
        page.set_default_timeout(1000 * HANGS_SECONDS)
        yield page
        browser.close()
