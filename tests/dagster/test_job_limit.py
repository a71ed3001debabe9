"""A command ends with whoever started it, or at its limit, and everything that it has started with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakeidx.dagster import job_limit
from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = pytest.mark.slow

#: Starts a process that does not listen to SIGTERM, says its number, and waits.
STUBBORN = """
import subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
time.sleep(0.5)
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""
#: The same with one that does.
KIND = STUBBORN.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN); ", "")


def run(seconds: float, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, job_limit.__file__, str(seconds), sys.executable, *command])


def is_gone(pid: int) -> bool:
    """Wait for a process that was killed; one that is dead and that nobody has asked after is gone, too."""
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end and is_there(pid):
        time.sleep(0.02)
    return not is_there(pid)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def child_of(file: Path) -> int:
    end = time.monotonic() + HANGS_SECONDS
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < end, "the command has not begun"
        time.sleep(0.02)
    return int(file.read_text())


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("3", 3)])
@pytest.mark.parametrize("seconds", [0, 60])
def test_the_exit_code_is_that_of_the_command(code: str, expected: int, seconds: float) -> None:
    assert run(seconds, "-c", f"import sys; sys.exit({code})").wait(HANGS_SECONDS) == expected


def test_a_command_that_was_killed_says_by_what() -> None:
    assert run(0, "-c", "import os; os.kill(os.getpid(), 9)").wait(HANGS_SECONDS) == 128 + 9


def test_at_the_limit_all_processes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clock() -> float:
        """Hours pass when the command has begun, however slow the machine."""
        return time.monotonic() + (7200 if (tmp_path / "child").exists() else 0)

    monkeypatch.setattr(job_limit, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    monkeypatch.setattr(job_limit, "GRACE_SECONDS", 0.2)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        assert job_limit.main(["3600", sys.executable, "-c", STUBBORN, f"{tmp_path}/child"]) == job_limit.TIMED_OUT
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert is_gone(child_of(tmp_path / "child"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_run_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    process = run(0, "-c", KIND, f"{tmp_path}/child")
    child = child_of(tmp_path / "child")
    assert is_there(child)
    process.send_signal(number)
    assert process.wait(HANGS_SECONDS) == 128 + number
    assert is_gone(child)


def test_a_run_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, job_limit.__file__, "0", sys.executable, "-c", KIND, f"{tmp_path}/child"]
    killed = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"])
    child = child_of(tmp_path / "child")
    assert is_there(child)
    killed.kill()
    killed.wait(HANGS_SECONDS)
    assert is_gone(child)
