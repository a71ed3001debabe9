"""Starts a code server, and marks the runs as failed that ended with the server that had its address before.

    python -m lakeidx.dagster.left_runs --host code --port 4000 dagster code-server start --port 4000 ...

Dagster's default launcher starts runs as processes of the code server and does not look whether they live: a run that went with its
container stays *started* for ever, and with it its slot of the table's pool, so that no later batch begins. Once it is marked, run
retries start another, which resumes from the batch's staging. In a new container nothing runs yet, so every run that was started at
its address is gone; they are listed before the server starts, and marked when the daemon has had time to reach it, for a retry that
finds no code location is not tried again. On Kubernetes runs are Jobs, which Dagster watches itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import dagster as dg

#: Tag in which Dagster's launcher notes the address of the code server of a run.
_SERVER = ".dagster/grpc_info"
_UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
_START_SECONDS = 600


def plan_left_runs(runs: Sequence[dg.DagsterRun], host: str, port: int) -> list[dg.DagsterRun]:
    """Return those of some runs under way that were started in the server of an address."""
    places = [json.loads(r.tags.get(_SERVER, "{}")) for r in runs]
    return [r for r, place in zip(runs, places, strict=True) if (place.get("host"), place.get("port")) == (host, port)]


def apply_left_runs(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> None:
    """Mark runs that are still in progress as failed, or as canceled where that was requested."""
    for run in instance.get_runs(dg.RunsFilter(run_ids=list(run_ids), statuses=_UNDER_WAY)):
        if run.status is dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message="The run ended with its code server, which was started again.")
        else:
            instance.report_run_failed(run, message="The run ended with its code server, which was started again.")


def _mark_later(host: str, port: int, seconds: float, run_ids: Sequence[str]) -> None:
    """Wait for the server, and some seconds more, and mark the runs."""
    end = time.monotonic() + _START_SECONDS
    check = [sys.executable, "-m", "dagster", "api", "grpc-health-check", "--host", host, "--port", str(port)]
    while subprocess.run(check, capture_output=True).returncode and time.monotonic() < end:  # noqa: S603 - ourselves
        time.sleep(1)
    time.sleep(seconds)
    with dg.DagsterInstance.get() as instance:
        apply_left_runs(instance, run_ids)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line: becomes the command that is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, help="the server's address as in workspace.yaml")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--after", type=float, default=90, help="seconds from when the server answers; the daemon looks once a minute"
    )
    parser.add_argument("--mark", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what starts the server")
    arguments = parser.parse_args(argv)
    if arguments.mark:
        _mark_later(arguments.host, arguments.port, arguments.after, arguments.mark)
        return
    with dg.DagsterInstance.get() as instance:
        found = instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY))
    left = [r.run_id for r in plan_left_runs(found, arguments.host, arguments.port)]
    if left:
        print(f"runs that ended with the server before this one: {', '.join(left)}", file=sys.stderr, flush=True)
        same = ["--host", arguments.host, "--port", str(arguments.port), "--after", str(arguments.after)]
        subprocess.Popen([sys.executable, "-m", "lakeidx.dagster.left_runs", *same, "--mark", *left])  # noqa: S603 - ourselves
    os.execvp(arguments.command[0], arguments.command)  # noqa: S606 - what the deployment gives


if __name__ == "__main__":
    main()
