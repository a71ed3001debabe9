"""Dagster's web server and daemon on this machine, until Ctrl-C (``make ui``). Runs nothing and adds nothing by itself."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from types import FrameType

#: A busy machine needs some of them to end a web server, a daemon and its runs in order.
_GRACE_SECONDS = 45
_DAGSTER_YAML = """\
# A local Dagster instance of lakeidx: everything in files below this folder. For servers see deploy/dagster.yaml.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  # One slot for the batches of a table, one for its upkeep: steps of each take turns, and neither waits for the other.
  pools:
    default_limit: 1
    granularity: op
  runs:
    max_concurrent_runs: 2
run_retries:
  # A new run after a process was killed; steps retry by themselves.
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
run_monitoring:
  enabled: true
  poll_interval_seconds: 30
  # A killed run keeps its slot of the table's pool until then, and the run that takes its place waits for it.
  free_slots_after_run_end_seconds: 30
sensors:
  # A sensor may request 50 runs at a time: submitted one by one they take minutes.
  use_threads: true
  num_workers: 4
  num_submit_workers: 4
retention:
  # Ticks; runs stay until they are deleted.
  sensor:
    purge_after_days: {skipped: 1, failure: 30, success: 30}
"""


def _local_environment(work: Path) -> dict[str, str]:
    """Return the environment of a local deployment whose landing files, warehouse and Dagster home are below one folder."""
    work = work.resolve()
    environment = dict(os.environ)
    environment.setdefault("LAKEIDX_LANDING", str(work / "landing"))
    environment.setdefault("LAKEIDX_WAREHOUSE", str(work / "warehouse"))
    environment["DAGSTER_HOME"] = str(prepare_home(work))
    # `dagster dev` recommends another command line tool at every start; that tool needs another package.
    environment.setdefault("PYTHONWARNINGS", "ignore:Function ")
    return environment


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--work", type=Path, default=Path(".work"), help="folder of landing files, warehouse and Dagster"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument(
        "--module",
        default="lakeidx.dagster.definitions",
        help="code location; unless given, the files of ./pipelines, or of the folder in LAKEIDX_PIPELINES",
    )
    parser.add_argument("--page", default="", help="path of the page to begin with, e.g. assets/shop/orders")
    arguments = parser.parse_args(argv)
    if find_spec("dagster_webserver") is None:
        print("the UI needs Dagster: pip install 'lakeidx[dagster]'", file=sys.stderr)
        return 2
    if _port_is_taken(arguments.host, arguments.port):
        print(f"port {arguments.port} of {arguments.host} is in use; give another one with --port", file=sys.stderr)
        return 2
    environment = _local_environment(arguments.work)
    for name in ("LAKEIDX_LANDING", "LAKEIDX_WAREHOUSE", "DAGSTER_HOME"):
        print(f"  {name}={environment[name]}", file=sys.stderr)
    address = f"http://{arguments.host}:{arguments.port}/{arguments.page}".rstrip("/")
    print(f"Dagster UI: {address}  (Ctrl-C ends it)", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "dagster", "dev", "-m", arguments.module]
    command += ["-h", arguments.host, "-p", str(arguments.port), "--log-level", "warning"]
    started: list[subprocess.Popen[bytes]] = []
    asked = Event()

    def forward(number: int, frame: FrameType | None) -> None:
        asked.set()
        for process in started:
            process.send_signal(signal.SIGINT)
            signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)

    def give_up(number: int, frame: FrameType | None) -> None:
        for process in started:
            _signal_group(process.pid, signal.SIGKILL)

    # Before the child is made: it must not inherit an ignored SIGINT, which shells give to jobs in the background.
    signal.signal(signal.SIGINT, forward)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGALRM, give_up)
    # In a group of its own: one Ctrl-C reaches the children through us, once, and not twice.
    process = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603 - our own command
    started.append(process)
    code = process.wait()
    _signal_group(process.pid, signal.SIGTERM)
    # Interrupted it ends with any code; by itself only because something is wrong.
    return 0 if asked.is_set() else code or 1


def _port_is_taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def _signal_group(group: int, number: int) -> None:
    """Signal processes that the development server may have left running."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def prepare_home(work: Path) -> Path:
    """Make the Dagster home below a work folder when it is not there; an existing dagster.yaml stays as it is."""
    home = work.resolve() / "dagster_home"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists() or not settings.stat().st_size:
        settings.write_text(_DAGSTER_YAML, encoding="utf-8")
    return home


if __name__ == "__main__":
    sys.exit(main())
