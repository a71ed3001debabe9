"""``make ui``: Dagster's web server and daemon on this machine, until Ctrl-C. Runs nothing and adds nothing by itself."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from dagster_project.home import prepare_home

GRACE_SECONDS = 20


def local_environment(work: Path) -> dict[str, str]:
    """Environment of a local deployment whose landing files, warehouse and Dagster home lie below one folder."""
    work = work.resolve()
    environment = dict(os.environ)
    environment.setdefault("LAKEIDX_LANDING", str(work / "landing"))
    environment.setdefault("LAKEIDX_WAREHOUSE", str(work / "warehouse"))
    environment["DAGSTER_HOME"] = str(prepare_home(work))
    return environment


def main(argv: list[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path(".work"), help="folder of landing files, warehouse and Dagster")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3000)
    arguments = parser.parse_args(argv)
    environment = local_environment(arguments.work)
    for name in ("LAKEIDX_LANDING", "LAKEIDX_WAREHOUSE", "DAGSTER_HOME"):
        print(f"  {name}={environment[name]}", file=sys.stderr)
    print(f"Dagster UI: http://{arguments.host}:{arguments.port}  (Ctrl-C ends it)", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "dagster", "dev", "-m", "dagster_project.definitions"]
    command += ["-h", arguments.host, "-p", str(arguments.port), "--log-level", "warning"]
    # In a group of its own: one Ctrl-C reaches the children through us, once, and not twice.
    process = subprocess.Popen(command, env=environment, start_new_session=True)

    def forward(number: int, frame: FrameType | None) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, forward)
    signal.signal(signal.SIGTERM, forward)
    code = process.wait()
    _end_group(process.pid)
    return 0 if code in (0, -signal.SIGINT, 130, 1) else code


def _end_group(group: int) -> None:
    """End what the development server may have left behind."""
    try:
        os.killpg(group, signal.SIGTERM)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
