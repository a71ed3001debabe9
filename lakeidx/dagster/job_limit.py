"""Runs a command in a process group of its own, for so many seconds at most; the group ends with this program, and with its parent.

python job_limit.py SECONDS COMMAND [ARGUMENT ...]

SECONDS 0 = no limit. The exit code is that of the command, 128 and the signal's number when one ended it, `TIMED_OUT` at the limit.
A parent that was killed sends no message, so it is looked for each second.
spark-submit starts a Java machine and that one Python: ending the first process alone would leave the others at work, beside the
job that is submitted next. No library but Python's own is used, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

TIMED_OUT = 124
#: Seconds that processes have to end by themselves.
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    seconds, command = float(argv[0]), argv[1:]
    for number in _ENDS:
        signal.signal(number, _stop)
    parent = os.getppid()
    child = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - what the deployment names
    end = time.monotonic() + (seconds or float("inf"))
    code: int | None = None
    try:
        while code is None:
            if time.monotonic() >= end:
                _end(child)
                return TIMED_OUT
            if os.getppid() != parent:
                _stop(signal.SIGHUP, None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(timeout=min(_LOOK_SECONDS, max(end - time.monotonic(), 0)))
    except SystemExit:
        _end(child)
        raise
    return code if code >= 0 else 128 - code


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the group: kindly, then by force."""
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    end = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < end:
            child.poll()
            os.killpg(child.pid, 0)
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
