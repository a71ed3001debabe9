"""Runs the test lanes and prints what each did. ``python -m tests.lanes [lane ...]``

The first lanes use all processors. The others mostly wait for servers and JVMs, so some of them run at a time, and behind them,
with what they leave of the processors, the lanes that only compute.

A lane whose tests cannot run on this machine shows as skipped, with the reason; it is never shown as passed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import psutil

from tests import line_coverage
from tests.kernel_list import unlisted

ROOT = Path(__file__).resolve().parent.parent
#: What takes longest begins first.
_ORDER = ("interop", "spark", "dagster", "browser", "s3", "azure", "postgres", "hbase")
#: Lanes that wait for nothing, one after another behind those, which go first: Spark waits ten seconds for a worker.
_BEHIND = ("slow", "properties")
_NICE = 10
_AT_A_TIME = 3
#: Where files of tests cost no disk, and what must be free there: lanes leave up to 1 GB each.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 6 << 30
#: Seconds a lane may take: one that hangs, and no test in it (lakeidx/testing/limits.py), is named, and says where. On a machine
#: that is busy with other things the longest needs half an hour; a slower one must not fail. Twice that behind others.
_SECONDS = 2 * 3600
#: Seconds from a lane's last test to its end.
_SECONDS_TO_END = 600
#: Seconds that a lane that is killed has to print where it is.
_SECONDS_TO_SAY = 20
#: For JVMs that live for seconds and share two processors: no time for the second compiler, no threads of a collector.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Spark gives a worker ten seconds to start, which is no setting of it, and may be too few beside other lanes: then the test runs
#: again, and shows as R.
_AGAIN = ("--reruns", "3", "--only-rerun", "Python worker failed to connect back")
#: What is slow without needing anything comes last: a test with several marks belongs to the first of its lanes.
_HEAVY = ("spark", "interop", "s3", "azure", "dagster", "hbase", "browser", "postgres", "slow")


@dataclass(frozen=True)
class Lane:
    """One lane: a pytest mark expression, more arguments, and whether it has to reach the share of lines that pyproject.toml
    names.
    """

    name: str
    marks: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    covers: bool = False

    @property
    def behind(self) -> bool:
        """Whether it takes what others leave of the processors."""
        return self.name in _BEHIND

    @property
    def aside(self) -> bool:
        """Whether it runs beside others."""
        return self.behind or self.name in _ORDER


@dataclass(frozen=True)
class Outcome:
    """What a lane did: tests by outcome, seconds, seconds of the processors, reasons of skipped tests."""

    lane: Lane
    counts: Counter[str]
    seconds: float
    cpu_seconds: float
    reasons: Counter[str]

    def lines(self) -> list[str]:
        """For the summary."""
        c = self.counts
        verdict = "FAILED" if c["failed"] else "passed" if c["passed"] else "SKIPPED" if c else "empty"
        line = (
            f"{self.lane.name:<11} {verdict:<8} {c['passed']:>5} passed {c['failed']:>3} failed "
            f"{c['skipped']:>3} skipped {self.seconds:>7.1f} s {self.cpu_seconds:>7.1f} CPU s"
        )
        return [line, *(f"          {count} x {reason}" for reason, count in self.reasons.most_common(5))]


def lanes() -> list[Lane]:
    """All lanes, in the order they run; every test belongs to at least one."""
    light = " and ".join(f"not {m}" for m in _HEAVY)
    side_by_side = ("-n", "2", "--dist", "worksteal")
    # Two plugins that these lanes have no use for cost each of ten thousand tests some 0.3 ms; so does a second watchdog beside
    # that of pytest-timeout, a thread per test.
    plain = (*side_by_side, "-p", "no:rerunfailures", "-p", "no:anyio", "-o", "faulthandler_timeout=0")
    # The fast lane takes a tenth of the examples of each property beside a module.
    fewer = (("LAKEIDX_EXAMPLES_SCALE", "0.1"),)
    apart = os.pathsep.join(("tests/golden_tests", "tests/property", *_heavy_places()))
    out = [
        Lane("fast", light, plain, (*fewer, ("LAKEIDX_TESTS_APART", apart)), covers=True),
        Lane("golden", light, (*plain, "tests/golden_tests")),
        Lane("properties", light, (*plain, "tests/property")),
    ]
    for i, mark in enumerate(_HEAVY):
        others = "".join(f" and not {m}" for m in _HEAVY[:i])
        arguments = (*_AGAIN, *(() if mark in _ORDER else side_by_side), *_files_with(mark))
        environment = (("LAKEIDX_SPARK_ARCHIVE", "make"),) if mark == "spark" else ()
        out.append(Lane(mark, f"{mark}{others}", arguments, environment))
    order = (*_ORDER, *_BEHIND)
    return sorted(out, key=lambda lane: order.index(lane.name) if lane.aside else -1)


def _files_with(mark: str) -> list[str]:
    """Test files that name a mark: collecting all ten thousand tests takes longer than some lanes."""
    named = re.compile(rf"\bmark\.{mark}\b")
    return [str(f.relative_to(ROOT)) for f, marks in _marks_by_file().items() if named.search(marks)]


@cache
def _marks_by_file() -> dict[Path, str]:
    """Lines of each test file that name a mark."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    texts = {f: f.read_text(encoding="utf-8") for f in files}
    return {f: "\n".join(line for line in text.splitlines() if "mark." in line) for f, text in texts.items()}


def _heavy_places() -> list[str]:
    """Folders and files whose tests are all marked as heavy: to import them (Dagster, pyspark) costs the fast lane seconds."""
    marked = re.compile(rf"^pytestmark = .*\bmark\.(?:{'|'.join(_HEAVY)})\b", re.MULTILINE)
    files = {f: bool(marked.search(marks)) for f, marks in _marks_by_file().items()}
    light_folders = {f.parent for f, heavy in files.items() if not heavy}
    places = {f if f.parent in light_folders else f.parent for f, heavy in files.items() if heavy}
    return sorted(str(place.relative_to(ROOT)) for place in places)


def run(lane: Lane, *, aside: bool = False) -> Outcome:
    """Run a lane; one that runs beside another prints all it says when it is done."""
    print(f"== lane {lane.name}{' begins' if aside else ''}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_memory_folder(), ignore_cleanup_errors=True) as folder:
        # PostgreSQL runs as a user of its own.
        os.chmod(folder, 0o711)
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", lane.marks, "--junitxml", str(report), *lane.arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **dict(lane.environment)}
        # Tests start hundreds of processes: each would compile all modules again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.setdefault("JDK_JAVA_OPTIONS", _JAVA)
        environment["TMPDIR"] = folder
        if lane.covers:
            command += line_coverage.ARGUMENTS
            environment[line_coverage.FOLDER] = folder
        if aside:
            # A file, not a pipe: a server that outlives its test would hold a pipe open.
            said = Path(folder) / "output.txt"
            with said.open("wb") as out:
                code, cpu = _run_within(command, environment, report, out, nice=_NICE if lane.behind else 0)
            print(
                f"== lane {lane.name}, {time.monotonic() - started:.0f} s\n{said.read_text(encoding='utf-8', errors='replace')}",
                flush=True,
            )
        else:
            code, cpu = _run_within(command, environment, report)
        counts: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        if report.exists():
            seen = set[tuple[str | None, str | None]]()
            for case in ElementTree.parse(report).iter("testcase"):
                found = next((k for k in ("failure", "error", "skipped") if case.find(k) is not None), "passed")
                test = (case.get("classname"), case.get("name"))
                if found == "passed" and test in seen:
                    reasons["ran again: a worker of Spark had not started in ten seconds"] += 1
                    continue
                seen.add(test)
                counts["failed" if found in ("failure", "error") else found] += 1
                if found == "skipped":
                    reasons[(case.find("skipped").get("message") or "no reason").splitlines()[0]] += 1  # type: ignore[union-attr]
        if lane.covers and (missed := line_coverage.missed_floor(Path(folder))):
            counts["failed"] += 1
            reasons[missed] += 1
    # Exit code 5 is pytest's "no test": an empty lane. Any other code than 0 and 1 means that pytest itself broke.
    if code not in (0, 1, 5) or (code == 1 and not counts["failed"]):
        counts["failed"] += 1
        reasons[f"pytest ended with code {code}"] += 1
    return Outcome(lane, counts, time.monotonic() - started, cpu, reasons)


def _run_within(
    command: list[str], environment: dict[str, str], report: Path, out: IO[bytes] | None = None, *, nice: int = 0
) -> tuple[int, float]:
    """Run a lane's command, and kill it when it takes too long, or does not end after its last test.

    returns   exit code, 0 for one that only did not end; CPU seconds of the process and of all that it waited for
    """
    error = None if out is None else subprocess.STDOUT
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=error)
    os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + nice)
    seconds = _SECONDS * (2 if nice else 1)
    deadline, late = time.monotonic() + seconds, ""
    while True:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return 0 if late and report.exists() else process.returncode, used.ru_utime + used.ru_stime
        if report.exists() and time.time() - report.stat().st_mtime > _SECONDS_TO_END:
            late = f"does not end {_SECONDS_TO_END} s after its last test"
        elif time.monotonic() > deadline:
            late = f"took longer than {seconds} s"
        if late:
            print(f"== lane {late} and is killed: {' '.join(command)}", flush=True)
            _kill(psutil.Process(process.pid))
        time.sleep(0.2)


def _kill(process: psutil.Process) -> None:
    """Kill a process and all below it; Python dies of the first signal with the stacks of all its threads."""
    children = process.children(recursive=True)
    process.send_signal(signal.SIGABRT)
    time.sleep(_SECONDS_TO_SAY)
    for each in [*children, process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def _memory_folder() -> str | None:
    """A folder in memory, where there is one with room for the tables of the tests; else None."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES:
        return None
    return str(_MEMORY)


def main(names: list[str]) -> int:
    """Run the named lanes, or all."""
    known = {lane.name: lane for lane in lanes()}
    unknown = [n for n in names if n not in known]
    if unknown:
        print(f"unknown lanes {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[n] for n in names] if names else list(known.values())
    outcomes = [run(lane) for lane in chosen if not lane.aside]
    beside = [lane for lane in chosen if lane.aside]
    if len(beside) < 2:
        outcomes += [run(lane) for lane in beside]
    else:
        print(f"== some lanes at a time: {', '.join(lane.name for lane in beside)}", flush=True)
        with ThreadPoolExecutor(_AT_A_TIME) as pool, ThreadPoolExecutor(1) as behind:
            begun = [(behind if lane.behind else pool).submit(run, lane, aside=True) for lane in beside]
            outcomes += [done.result() for done in begun]
    total = sum((o.counts for o in outcomes), Counter())
    print("\n== lanes")
    print("\n".join(line for o in outcomes for line in o.lines()))
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    if not names and (kernels := unlisted()):
        print("not compiled by `lakeidx warm-up` (python -m tests.kernel_list adds them):", *kernels, sep="\n  ")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
