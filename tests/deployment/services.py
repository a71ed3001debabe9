"""The services of deploy/compose.yaml as processes of this machine: the same commands and variables, only addresses differ.

What Compose does is done here: names of services become 127.0.0.1 with free ports, files that are mounted lie in a folder, and
services that have ended are started again by `start`. PostgreSQL is started by the test; Spark's services are left out, stages run
in the run's own process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports
from tests.kit.s3_server import weed_binary

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
#: The variable that names a file for the services' peaks of memory.
PEAKS = "LAKEIDX_PEAKS"
#: What somebody writes into deploy/.env.
DOT_ENV = {
    "DAGSTER_POSTGRES_USER": "dagster",
    "DAGSTER_POSTGRES_PASSWORD": "lakeidx",
    "DAGSTER_POSTGRES_DB": "postgres",
    "AWS_ACCESS_KEY_ID": "lakeidx",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
    "LAKEIDX_SPARK_SECRET": "",
}


@dataclass
class Services:
    """Services of Compose by name; `folder` has their files and logs."""

    folder: Path
    postgres_port: int
    more: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    #: Largest resident set of each service, with all processes below it, in MiB.
    peaks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
        self.s3_port, self.code_port, self.web_port, *self.weed_ports = free_ports(10)
        for name in ("home", "pipelines", "bin", "data"):
            (self.folder / name).mkdir(parents=True)
        # What the image has and this machine need not have.
        (self.folder / "bin/tini").write_text('#!/bin/sh\nshift\nexec "$@"\n')
        (self.folder / "bin/tini").chmod(0o755)
        instance = (
            (DEPLOY / "dagster.yaml").read_text(encoding="utf-8").replace("port: 5432", f"port: {self.postgres_port}")
        )
        # The same settings, only quicker.
        quick = re.sub(r"(poll_interval_seconds|free_slots_after_run_end_seconds): 60", r"\1: 3", instance)
        (self.folder / "home/dagster.yaml").write_text(quick, encoding="utf-8")
        places = (DEPLOY / "workspace.yaml").read_text(encoding="utf-8")
        places = places.replace("host: code", "host: 127.0.0.1").replace("port: 4000", f"port: {self.code_port}")
        (self.folder / "workspace.yaml").write_text(places, encoding="utf-8")

    def environment(self, service: str) -> dict[str, str]:
        """Variables of a service, with those of deploy/.env filled in."""
        given = self.compose["services"][service].get("environment", {})
        found = {
            name: re.sub(r"\$\{(\w+)[^}]*\}", lambda m: DOT_ENV[m[1]], str(value)) for name, value in given.items()
        }
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEIDX_", "DAGSTER_", "AWS_"))}
        return {
            **plain,
            **{k: v for k, v in found.items() if v},
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.s3_port}",
            "DAGSTER_HOME": str(self.folder / "home"),
            "LAKEIDX_PIPELINES": str(self.folder / "pipelines"),
            "LAKEIDX_ENGINE": "local",
            "LAKEIDX_SPARK_PARALLELISM": "1",
            **self.more,
        }

    def storage_options(self) -> dict[str, str]:
        """Options for `lakeidx.storage.open_store`."""
        return {
            "endpoint_url": f"http://127.0.0.1:{self.s3_port}",
            "key": DOT_ENV["AWS_ACCESS_KEY_ID"],
            "secret": DOT_ENV["AWS_SECRET_ACCESS_KEY"],
        }

    def command(self, service: str) -> list[str]:
        """The command of a service on this machine."""
        if service == "s3":
            return self._weed(self.compose["services"]["s3"]["command"])
        given = self.compose["services"][service].get("command") or self._of_image()
        moved = {
            r"\bpython\b": sys.executable,
            r"\b0\.0\.0\.0\b|^code$": "127.0.0.1",
            # How long a daemon may take to look again: the test starts it after the server, on a machine that may be busy.
            r"^90$": "45",
            r"\b4000\b": str(self.code_port),
            r"\b3000\b": str(self.web_port),
            r"/opt/dagster/workspace\.yaml\b": str(self.folder / "workspace.yaml"),
            r"/opt/lakeidx/deploy\b": str(DEPLOY),
        }
        words = given
        for there, here in moved.items():
            words = [re.sub(there, here, w) for w in words]
        return ["sh", str(DEPLOY / "entrypoint.sh"), *words]

    def start(self, *names: str) -> None:
        """Start services, or start those again that have ended."""
        for name in names:
            with open(self.folder / f"{name}.log", "ab") as log:
                self.processes[name] = subprocess.Popen(
                    self.command(name), cwd=self.folder, env=self.environment(name), stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip

    def start_login(self, person: str, password: str) -> int:
        """Make what docs/deployment.md makes for the service `login`, start it and return its port."""
        folder = self.folder / "login"
        folder.mkdir()
        hashed = _printed("openssl", "passwd", "-apr1", password)
        (folder / "users").write_text(f"{person}:{hashed}\n")
        key = ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/tls.key", "-out", f"{folder}/tls.crt")
        _printed("openssl", "req", "-x509", *key, "-days", "1", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=DNS:localhost")  # fmt: skip
        (port,) = free_ports(1)
        moved = {
            "listen 8443": f"listen 127.0.0.1:{port}", " /login/": f" {folder}/", " /tmp/": f" {folder}/",
            "webserver:3000": f"127.0.0.1:{self.web_port}",
        }  # fmt: skip
        text = (DEPLOY / "login.conf").read_text(encoding="utf-8")
        assert all(there in text for there in moved)
        text = re.sub("|".join(map(re.escape, moved)), lambda found: moved[found[0]], text)
        (self.folder / "login.conf").write_text(text, encoding="utf-8")
        # In its image nginx runs as a user of its own; here it reads the test's folder.
        started = ["nginx", "-c", str(self.folder / "login.conf"), "-g", "daemon off; user root;"]
        with open(self.folder / "login.log", "ab") as log:
            self.processes["login"] = subprocess.Popen(
                started, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        return port

    def run(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a service that ends, or a command in the environment of one, to its end."""
        return subprocess.run(
            list(command) or self.command(name), cwd=self.folder, env=self.environment(name), capture_output=True, text=True,
            check=False, timeout=HANGS_SECONDS,
        )  # fmt: skip

    def kill(self, *names: str, how: int = signal.SIGKILL) -> None:
        """End services with all their processes; by SIGKILL as when a machine is gone."""
        self.note_peaks()
        for name in names:
            process = self.processes.pop(name, None)
            if process is None or process.poll() is not None:
                continue
            above = psutil.Process(process.pid)
            all_of_it = {above, *above.children(recursive=True), *_of_group(process.pid)}
            # They clean up what the others leave in /dev/shm, and end by themselves; on a machine that is gone it is gone, too.
            trackers = {p for p in all_of_it if _is_tracker(p)}
            for running in all_of_it - trackers:
                _send(running, how)
            _, left = psutil.wait_procs(all_of_it, timeout=30)
            for running in left:
                _send(running, signal.SIGKILL)
            process.wait(HANGS_SECONDS)

    def stop(self) -> None:
        """End everything."""
        self.kill(*list(self.processes))

    def note_peaks(self) -> None:
        """Remember how much memory each service had at most, with the runs below it, if somebody asks: it takes time."""
        if PEAKS not in os.environ:
            return
        for name, process in self.processes.items():
            if process.poll() is None:
                above = psutil.Process(process.pid)
                whole = sum(_peak_mib(p.pid) for p in [above, *above.children(recursive=True)])
                self.peaks[name] = max(self.peaks.get(name, 0), whole)

    def wait(self, what: str, done: Callable[[], Any]) -> Any:
        """Wait until something is there; whatever goes wrong meanwhile counts as not yet."""
        end, error = time.monotonic() + HANGS_SECONDS, ""
        while time.monotonic() < end:
            self.note_peaks()
            try:
                if found := done():
                    return found
            except Exception as e:  # a service that is still starting
                error = repr(e)
            time.sleep(0.5)
        logs = {n: (self.folder / f"{n}.log").read_text(errors="replace")[-1500:] for n in self.processes}
        raise AssertionError(f"{what} did not happen: {error}\n" + "\n".join(f"== {n}\n{t}" for n, t in logs.items()))

    def ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        """Ask the web server, as the UI does."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.web_port}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=HANGS_SECONDS) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return dict(answer["data"])

    def _of_image(self) -> list[str]:
        last = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line.startswith("CMD ")][-1]
        return list(json.loads(last.removeprefix("CMD ")))

    def _weed(self, given: str) -> list[str]:
        """The server's command line; on one machine every port must be said."""
        words = [
            w.replace("=/data", f"={self.folder / 'data'}").replace("0.0.0.0", "127.0.0.1") for w in shlex.split(given)
        ]
        names = [f"{part}.port{kind}" for part in ("master", "volume", "filer") for kind in ("", ".grpc")]
        ports = [f"-{name}={port}" for name, port in zip(names, self.weed_ports, strict=False)]
        more = [
            "-ip=127.0.0.1",
            f"-s3.port={self.s3_port}",
            f"-s3.port.grpc={self.weed_ports[-1]}",
            "-s3.port.iceberg=0",
        ]
        return [
            str(weed_binary()),
            *words,
            *ports,
            *more,
            "-s3.port.lance=0",
            "-volume.max=40",
            "-master.volumeSizeLimitMB=64",
        ]


def _printed(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _of_group(group: int) -> Iterator[psutil.Process]:
    """What is left of a process group, also what has lost its parent."""
    for found in psutil.process_iter():
        with suppress(OSError):
            if os.getpgid(found.pid) == group:
                yield found


def _is_tracker(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def _send(process: psutil.Process, how: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(how)


def _peak_mib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) >> 10 if found else 0


def second_version(folder: Path) -> Path:
    """A copy of the package that says it is a newer version; put it on PYTHONPATH."""
    shutil.copytree(ROOT / "lakeidx", folder / "lakeidx")
    init = folder / "lakeidx/__init__.py"
    text = re.sub(
        r'^__version__ = ".*"$', '__version__ = "99.0.0"', init.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    init.write_text(text, encoding="utf-8")
    return folder
