"""PostgreSQL as Dagster's storage, with the settings of deploy/dagster.yaml; the server is started here, unprivileged."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.pipelines import Deployment, red_checks

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def call(*command: str) -> None:
        subprocess.run(command, check=True, cwd=data, stdout=subprocess.DEVNULL, timeout=90, **who)  # type: ignore[call-overload]

    (password := data / "password").write_text("lakeidx")
    password.chmod(0o644)
    call(str(folder / "initdb"), "-D", "db", "-U", "dagster", "-A", "password", f"--pwfile={password}", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={data} -c fsync=off"
    call(str(folder / "pg_ctl"), "-D", "db", "-w", "-l", "log", "-o", options, "start")
    try:
        yield port
    finally:
        call(str(folder / "pg_ctl"), "-D", "db", "-m", "immediate", "stop")
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def home(postgres: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster home with the production settings; only the port differs."""
    settings = (ROOT / "deploy" / "dagster.yaml").read_text().replace("port: 5432", f"port: {postgres}")
    (tmp_path / "dagster.yaml").write_text(settings)
    for name, value in (("HOST", "127.0.0.1"), ("USER", "dagster"), ("PASSWORD", "lakeidx"), ("DB", "postgres")):
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", value)
    return tmp_path


def test_a_pipeline_on_postgresql(home: Path, tmp_path: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert "Postgres" in type(instance.event_log_storage).__name__
        d = Deployment(tmp_path / "deployment", instance=instance)
        d.land("a.parquet", [(1, k, f"a{k}") for k in range(20)])
        result = d.run("a.parquet")
        assert result.success
        assert red_checks(result) == set()
        key = d.defs.resolve_asset_graph().get_all_asset_keys()
        commit = next(k for k in key if k.path[-1] == "commit")
        assert instance.get_latest_materialization_event(commit) is not None
        assert instance.get_dynamic_partitions("d__t__files") == ["a.parquet"]
        assert instance.get_runs_count() == 1
