"""A Spark cluster on loopback for tests: a master, workers and a Spark Connect server, each a process of its own.

They are started with the scripts and jars of the pyspark package. Import the fixture `spark_cluster` (one per module).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

from tests.spark_fixture import require_java

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 120
WORKERS = 2
#: A cluster is six JVMs on one machine: small heaps, and no time for the second compiler.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Settings of an application: one executor of one slot per worker.
APPLICATION = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.driver.memory": "512m",
    # All machines are this one; lakeidx gives drivers a local address only with local masters.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
}


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """The environment of Spark's processes: nothing of another Spark, this Python for the workers."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "LAKEIDX_", "DAGSTER_"))}
    return {
        **plain,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **more,
    }


@dataclass
class SparkCluster:
    """Processes by name; `folder` has their logs and the workers' directories."""

    folder: Path
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """Address of the master."""
        return f"spark://127.0.0.1:{self.port}"

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start(self) -> None:
        """Master and workers, until all workers have registered."""
        kind = "org.apache.spark.deploy.master.Master"
        self._spawn("master", kind, "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        # Workers ask for their master again and again, so nobody need wait for it.
        for number in range(WORKERS):
            self.start_worker(number)
        self._wait("master", re.compile("Registering worker"), WORKERS)

    def start_worker(self, number: int) -> None:
        """One worker with one core."""
        kind = "org.apache.spark.deploy.worker.Worker"
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
        self._spawn(f"worker-{number}", kind, *options, "--work-dir", str(self.folder / f"work-{number}"), self.master)

    def start_connect(self, settings: Mapping[str, str]) -> str:
        """A Spark Connect server whose executors are the cluster's; gives its address."""
        port = free_port()
        options = {**APPLICATION, **settings, "spark.connect.grpc.binding.port": str(port), "spark.log.level": "INFO"}
        conf = [f"--conf={key}={value}" for key, value in options.items()]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *conf]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        self._run("connect", command, memory="700m")
        self._wait("connect", re.compile("Spark Connect server started"), 1)
        return f"sc://127.0.0.1:{port}"

    def mend(self) -> None:
        """Start workers that have ended."""
        for number in range(WORKERS):
            process = self.processes.get(f"worker-{number}")
            if process is None or process.poll() is not None:
                before = len(re.findall("Registering worker", self.log("master")))
                self.start_worker(number)
                self._wait("master", re.compile("Registering worker"), before + 1)

    def kill(self, name: str) -> None:
        """End a process and all below it at once, as a machine that is gone; nothing when it has ended."""
        process = self.processes.pop(name, None)
        if process is not None:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    def stop(self) -> None:
        """End everything."""
        for name in list(self.processes):
            self.kill(name)

    def _spawn(self, name: str, kind: str, *arguments: str) -> None:
        self._run(name, [str(SPARK_HOME / "bin" / "spark-class"), kind, *arguments], memory="256m")

    def _run(self, name: str, command: list[str], *, memory: str) -> None:
        self.kill(name)
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(SPARK_DAEMON_MEMORY=memory, SPARK_DAEMON_JAVA_OPTS=_JAVA),
                start_new_session=True,
            )

    def _wait(self, name: str, said: re.Pattern[str], times: int) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            ended = [n for n, p in self.processes.items() if p.poll() is not None]
            if ended:
                raise RuntimeError(f"{ended[0]} ended; its log ends with\n{self.log(ended[0])[-3000:]}")
            if len(said.findall(self.log(name))) >= times:
                return
            time.sleep(0.2)
        raise RuntimeError(f"{name} did not say {said.pattern!r}; its log ends with\n{self.log(name)[-3000:]}")


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    """A running cluster; skipped, visibly, without Java."""
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="lakeidx-spark-"))
    cluster = SparkCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
