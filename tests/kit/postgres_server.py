"""A PostgreSQL server on loopback for tests, started unprivileged. Import the fixture `postgres` (one per module): its port.

User ``dagster``, password ``lakeidx``, database ``postgres``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports


def binaries() -> Path | None:
    """Folder of initdb and pg_ctl: on the PATH, or where Debian puts them."""
    found = shutil.which("initdb")
    places = [Path(os.path.realpath(found)).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in places if (p / "initdb").exists() and (p / "pg_ctl").exists()), None)


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    """Port of a running server. PostgreSQL refuses root, so it runs as user ``nobody`` then."""
    folder = binaries()
    if folder is None:
        pytest.skip("needs PostgreSQL (apt-get install postgresql)")
    data = Path(tempfile.mkdtemp(prefix="lakeidx-pg-"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
    who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
    (port,) = free_ports(1)

    def call(*command: str) -> None:
        subprocess.run(command, check=True, cwd=data, stdout=subprocess.DEVNULL, timeout=HANGS_SECONDS, **who)  # type: ignore[call-overload]

    (password := data / "password").write_text("lakeidx")
    password.chmod(0o644)
    call(str(folder / "initdb"), "-D", "db", "-U", "dagster", "-A", "password", f"--pwfile={password}", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={data} -c fsync=off"
    call(str(folder / "pg_ctl"), "-D", "db", "-w", "-t", str(HANGS_SECONDS), "-l", "log", "-o", options, "start")
    try:
        yield port
    finally:
        call(str(folder / "pg_ctl"), "-D", "db", "-m", "immediate", "-t", str(HANGS_SECONDS), "stop")
        shutil.rmtree(data, ignore_errors=True)
