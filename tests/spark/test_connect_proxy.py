"""Spark Connect as deploy/kubernetes/spark-connect.yaml shows it: Spark listens inside the pod, nginx takes TLS off, calls need a
token.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import lakeidx
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports
from tests.kit.small_tables import table_spec
from tests.kit.spark_archive import SPARK_HOME
from tests.kit.spark_cluster import environment
from tests.kit.spark_fixture import require_java

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (apt-get install nginx-light)"),
]
POD = Path(__file__).parents[2] / "deploy/kubernetes/spark-connect.yaml"
TOKEN = "a token of the test"


@dataclass
class Pod:
    """Both processes of the pod: ports of the proxy and of Spark, the certificate that clients trust."""

    folder: Path
    proxy_port: int
    spark_port: int

    @property
    def remote(self) -> str:
        """The address as deploy/kubernetes/settings.yaml has it."""
        return f"sc://localhost:{self.proxy_port}/;use_ssl=true"

    def lakeidx(self, *arguments: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
        """Run the command line as a run's pod does."""
        more = {
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": f"{self.folder}/tls.crt",
            "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", ""),
        }
        return subprocess.run(
            [sys.executable, "-m", "lakeidx.cli.main", *arguments],
            env={k: v for k, v in environment(**more).items() if v}, capture_output=True, text=True,
            timeout=HANGS_SECONDS, check=False,
        )  # fmt: skip


def nginx_conf(pod: Pod) -> str:
    """The proxy's configuration, with ports and folders of the test."""
    documents = yaml.safe_load_all(POD.read_text(encoding="utf-8"))
    (text,) = (d["data"]["nginx.conf"] for d in documents if d["kind"] == "ConfigMap")
    moved = {
        "listen 15002": f"listen 127.0.0.1:{pod.proxy_port}", "127.0.0.1:15003": f"127.0.0.1:{pod.spark_port}",
        " /tls/": f" {pod.folder}/", " /tmp/": f" {pod.folder}/",
    }  # fmt: skip
    assert all(there in text for there in moved)
    return re.sub("|".join(map(re.escape, moved)), lambda found: moved[found[0]], text)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    require_java()
    made = Pod(tmp_path_factory.mktemp("pod"), *free_ports(2))
    (made.folder / "nginx.conf").write_text(nginx_conf(made), encoding="utf-8")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{made.folder}/tls.key",
         "-out", f"{made.folder}/tls.crt", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    options = ["spark.connect.grpc.binding.address=127.0.0.1", f"spark.connect.grpc.binding.port={made.spark_port}"]
    options += ["spark.driver.memory=512m", "spark.ui.enabled=false", "spark.log.level=WARN"]
    server = [f"{SPARK_HOME}/bin/spark-submit", "--master", "local[1]", *(f"--conf={o}" for o in options)]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    # In its image nginx runs as a user of its own; here it reads the test's folder.
    proxy = ["nginx", "-c", f"{made.folder}/nginx.conf", "-g", "daemon off; user root;"]
    processes = [
        subprocess.Popen(
            command, cwd=made.folder, env=environment(SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN), stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        for command, log in ((server, (made.folder / "server.log").open("wb")), (proxy, (made.folder / "proxy.log").open("wb")))
    ]  # fmt: skip
    try:
        _wait_for(made, processes)
        yield made
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(HANGS_SECONDS)


def _wait_for(pod: Pod, processes: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + HANGS_SECONDS
    while True:
        try:
            for port in (pod.spark_port, pod.proxy_port):
                socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            logs = "".join(
                (pod.folder / f"{name}.log").read_text(errors="replace")[-2000:] for name in ("server", "proxy")
            )
            assert time.monotonic() < end, logs
            assert all(process.poll() is None for process in processes), logs
            time.sleep(0.3)


def test_a_run_writes_through_tls_with_the_token(pod: Pod, tmp_path: Path) -> None:
    spec = table_spec("id BIGINT, v STRING", ["id"], options={"bucket": "-1"})
    table = lakeidx.Table.create(f"{tmp_path}/lake/d.db/t", spec)
    table.upsert(pa.table({"id": range(10), "v": ["a"] * 10}))
    (tmp_path / "rows.csv").write_text("id,v\n9,b\n10,b\n")
    done = pod.lakeidx("upsert", table.uri, f"{tmp_path}/rows.csv", "--spark", "--remote", pod.remote)
    assert done.returncode == 0, done.stderr
    rows = lakeidx.Table.open(table.uri).scan(where="v = 'b'").to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [9, 10]

    refused = pod.lakeidx(
        "upsert",
        table.uri,
        f"{tmp_path}/rows.csv",
        "--spark",
        "--remote",
        pod.remote,
        "--batch-id",
        "2",
        token="a guess",
    )
    assert refused.returncode == 2
    assert "Invalid authentication token; set SPARK_CONNECT_AUTHENTICATE_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert TOKEN not in refused.stderr
    assert len(lakeidx.Table.open(table.uri).snapshots()) == 2


def test_spark_itself_speaks_no_tls_and_listens_inside_the_pod_only(pod: Pod) -> None:
    listening = Path("/proc/net/tcp").read_text(encoding="ascii") + Path("/proc/net/tcp6").read_text(encoding="ascii")
    port = f"{pod.spark_port:04X}"
    addresses = {
        line.split()[1].split(":")[0] for line in listening.splitlines() if f":{port} " in line and " 0A " in line
    }
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}, addresses
    assert addresses
