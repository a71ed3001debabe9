"""A Spark cluster for tests: a master, workers and a Spark Connect server, each on a machine of its own (`spark_network`).

They are started with the scripts and jars of the pyspark package. Import the fixture `spark_cluster` (one per module).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports
from tests.kit.spark_archive import OPTIONS, SPARK_HOME
from tests.kit.spark_fixture import require_java
from tests.kit.spark_network import LOOPBACK, Network, NoNamespaces, make_network

WORKERS = 2
MACHINES = ("master", *(f"worker-{n}" for n in range(WORKERS)), "driver", "connect")
#: A cluster is six JVMs on one machine: small heaps, and no time for the second compiler.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Settings of an application, beside the driver's address: one executor of one slot per worker.
_APPLICATION = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
}


def _java() -> str:
    return f"{_JAVA} {os.environ.get(OPTIONS, '')}".strip()


def environment(**more: str) -> dict[str, str]:
    """The environment of Spark's processes: nothing of another Spark, this Python for the workers."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "LAKEIDX_", "DAGSTER_"))}
    return {
        **plain,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        OPTIONS: os.environ.get(OPTIONS, ""),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **more,
    }


@dataclass
class SparkCluster:
    """Processes by name, each on the machine of its name; `folder` has their logs and the workers' directories."""

    folder: Path
    network: Network = field(default_factory=Network)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """Address of the master."""
        return f"spark://{self.network.address('master')}:{self.port}"

    def application(self, machine: str = "driver") -> dict[str, str]:
        """Settings of an application whose driver is on a machine."""
        # lakeidx gives drivers a local address only with local masters.
        address = self.network.address(machine)
        at = {"spark.driver.host": address, "spark.driver.bindAddress": address}
        return {**_APPLICATION, "spark.executor.extraJavaOptions": _java(), **at}

    def environment(self, machine: str = "driver", **more: str) -> dict[str, str]:
        """The environment of a process of Spark on a machine."""
        return environment(**{"SPARK_LOCAL_IP": self.network.address(machine), **more})

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start(self) -> None:
        """Master and workers, until all workers have registered."""
        kind = "org.apache.spark.deploy.master.Master"
        host = self.network.address("master")
        self._spawn("master", kind, "--host", host, "--port", str(self.port), "--webui-port", "0")
        # Workers ask for their master again and again, so nobody need wait for it.
        for number in range(WORKERS):
            self.start_worker(number)
        self._wait("master", re.compile("Registering worker"), WORKERS)

    def start_worker(self, number: int) -> None:
        """One worker with one core."""
        kind = "org.apache.spark.deploy.worker.Worker"
        name = f"worker-{number}"
        options = ("--host", self.network.address(name), "--cores", "1", "--memory", "1g", "--webui-port", "0")
        self._spawn(name, kind, *options, "--work-dir", str(self.folder / f"work-{number}"), self.master)

    def start_connect(self, settings: Mapping[str, str]) -> str:
        """A Spark Connect server whose executors are the cluster's; gives its address."""
        (port,) = free_ports(1)
        address = self.network.address("connect")
        more = {"spark.connect.grpc.binding.address": address, "spark.connect.grpc.binding.port": str(port)}
        options = {**self.application("connect"), **settings, **more, "spark.log.level": "INFO"}
        conf = [f"--conf={key}={value}" for key, value in options.items()]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *conf]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        self._run("connect", command, memory="700m")
        try:
            self._wait("connect", re.compile("Spark Connect server started"), 1)
        except RuntimeError:
            # It may be slow only, and would have the cluster's cores for as long as it lives.
            self.kill("connect")
            raise
        return f"sc://{address}:{port}"

    def mend(self) -> None:
        """Start workers that have ended."""
        for number in range(WORKERS):
            process = self.processes.get(f"worker-{number}")
            if process is None or process.poll() is not None:
                before = len(re.findall("Registering worker", self.log("master")))
                self.start_worker(number)
                # Another worker may be killed meanwhile: that one is started next time.
                self._wait("master", re.compile("Registering worker"), before + 1, needs=("master", f"worker-{number}"))

    @contextmanager
    def mending(self) -> Iterator[None]:
        """Start workers that have ended, all the while."""
        over = threading.Event()

        def mend() -> None:
            while not over.wait(0.2):
                self.mend()

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(mend)
            try:
                yield
            finally:
                over.set()
            done.result()

    def kill(self, name: str) -> None:
        """End a process and all below it at once, as a machine that is gone; nothing when it has ended."""
        process = self.processes.pop(name, None)
        if process is not None:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANGS_SECONDS)

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
                self.network.command(name, command),
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(name, SPARK_DAEMON_MEMORY=memory, SPARK_DAEMON_JAVA_OPTS=_java()),
                start_new_session=True,
            )

    def _wait(self, name: str, said: re.Pattern[str], times: int, needs: Collection[str] | None = None) -> None:
        """Wait until a process has said something so many times; fail when one that is needed for it has ended (None: any)."""
        end = time.monotonic() + HANGS_SECONDS
        while time.monotonic() < end:
            if len(said.findall(self.log(name))) >= times:
                return
            ended = [n for n, p in self.processes.items() if p.poll() is not None and (needs is None or n in needs)]
            if ended:
                raise RuntimeError(f"{ended[0]} ended; its log ends with\n{self.log(ended[0])[-3000:]}")
            time.sleep(0.2)
        raise RuntimeError(f"{name} did not say {said.pattern!r}; its log ends with\n{self.log(name)[-3000:]}")


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    """A running cluster; skipped, visibly, without Java."""
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="lakeidx-spark-"))
    try:
        network = make_network(MACHINES)
    except NoNamespaces as reason:
        warnings.warn(f"all machines of the cluster are this one: {reason}", stacklevel=1)
        network = Network()
    cluster = SparkCluster(folder, network)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        network.close()
        shutil.rmtree(folder, ignore_errors=True)
