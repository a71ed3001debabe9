"""Azure's emulator Azurite for tests: `npm install azurite`, which needs Node; skipped, visibly, without it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports

_ACCOUNT, _CONTAINER = "lakeidxtest", "lake"
_KEY = base64.b64encode(b"no secret: of tests").decode()


def azurite_program() -> str | None:
    """The program: LAKEIDX_AZURITE, of this folder's node_modules, or on the path."""
    beside = Path(__file__).resolve().parents[2] / "node_modules" / ".bin" / "azurite-blob"
    named = os.environ.get("LAKEIDX_AZURITE") or (str(beside) if beside.exists() else shutil.which("azurite-blob"))
    return named if named and shutil.which("node") else None


@contextmanager
def run_azurite() -> Iterator[dict[str, Any]]:
    """Run it with an empty container; gives the storage options, and the container's URI as ``uri``."""
    program = azurite_program()
    if program is None:
        pytest.skip("needs Node and Azurite: npm install azurite")
    (port,) = free_ports(1)
    folder = tempfile.mkdtemp(prefix="lakeidx-azurite-")
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder, "--silent"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_KEY}"}
    with open(f"{folder}/log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--skipApiVersionCheck"], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _make_container(process, port)
        options = {"account_name": _ACCOUNT, "account_key": _KEY, "endpoint_url": f"http://127.0.0.1:{port}/{_ACCOUNT}"}
        yield {"uri": f"az://{_CONTAINER}", **options}
    finally:
        process.terminate()
        process.wait(HANGS_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _make_container(process: subprocess.Popen[bytes], port: int) -> None:
    """Make the container as soon as the server listens."""
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS_SECONDS)
        try:
            # The account is in the path and in the resource that is signed.
            path = f"/{_ACCOUNT}/{_CONTAINER}?restype=container"
            headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
            signed = "\n".join(f"{name}:{value}" for name, value in headers.items())
            text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\n{signed}\n/{_ACCOUNT}/{_ACCOUNT}/{_CONTAINER}\nrestype:container"
            mark = base64.b64encode(hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()).decode()
            connection.request("PUT", path, headers={**headers, "Authorization": f"SharedKey {_ACCOUNT}:{mark}"})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status in (201, 409):
                return
            raise RuntimeError(f"Azurite made no container: {answer.status} {said!r}")
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    raise RuntimeError("Azurite did not start")
