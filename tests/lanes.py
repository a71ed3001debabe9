"""Runs the test lanes one after another and prints what each did. ``python -m tests.lanes [lane ...]``

A lane whose tests cannot run on this machine shows as skipped, with the reason; it is never shown as passed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Lanes whose files may run two at a time: each worker has servers and sessions of its own.
_SIDE_BY_SIDE = frozenset({"spark", "interop", "s3", "dagster", "slow"})
_HEAVY = ("spark", "interop", "s3", "dagster", "hbase", "browser", "postgres", "slow")


@dataclass(frozen=True)
class Lane:
    """One lane: a pytest mark expression and more arguments."""

    name: str
    marks: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def lanes() -> list[Lane]:
    """All lanes, in the order they run; every test belongs to at least one."""
    light = " and ".join(f"not {m}" for m in _HEAVY)
    side_by_side = ("-n", "2", "--dist", "loadfile")
    # The fast lane takes a tenth of the examples of each property beside a module; whole tables have a lane of their own.
    out = [
        Lane("fast", light, (*side_by_side, "--ignore=tests/property"), (("LAKEIDX_EXAMPLES_SCALE", "0.1"),)),
        Lane("properties", light, (*side_by_side, "tests/property")),
    ]
    for i, mark in enumerate(_HEAVY):
        others = "".join(f" and not {m}" for m in _HEAVY[:i])
        workers = side_by_side if mark in _SIDE_BY_SIDE else ()
        out.append(Lane(mark, f"{mark}{others}", (*workers, *_files_with(mark))))
    return out


def _files_with(mark: str) -> list[str]:
    """Test files that name a mark: collecting all ten thousand tests takes longer than some lanes."""
    named = re.compile(rf"\bmark\.{mark}\b")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(f.relative_to(ROOT)) for f in files if named.search(f.read_text(encoding="utf-8"))]


def run(lane: Lane) -> tuple[Counter[str], float, Counter[str]]:
    """Run a lane; gives counts by outcome, seconds, and reasons of skipped tests."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", lane.marks, "--junitxml", str(report), *lane.arguments]
        code = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1", **dict(lane.environment)}, check=False
        ).returncode
        counts: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        if report.exists():
            for case in ElementTree.parse(report).iter("testcase"):
                found = next((k for k in ("failure", "error", "skipped") if case.find(k) is not None), "passed")
                counts["failed" if found in ("failure", "error") else found] += 1
                if found == "skipped":
                    reasons[(case.find("skipped").get("message") or "no reason").splitlines()[0]] += 1  # type: ignore[union-attr]
    # Exit code 5 is pytest's "no test": an empty lane. Any other code than 0 and 1 means that pytest itself broke.
    if code not in (0, 1, 5) or (code == 1 and not counts["failed"]):
        counts["failed"] += 1
        reasons[f"pytest ended with code {code}"] += 1
    return counts, time.monotonic() - started, reasons


def main(names: list[str]) -> int:
    """Run the named lanes, or all."""
    known = {lane.name: lane for lane in lanes()}
    unknown = [n for n in names if n not in known]
    if unknown:
        print(f"unknown lanes {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    total: Counter[str] = Counter()
    lines = []
    for lane in (known[n] for n in names) if names else known.values():
        print(f"== lane {lane.name}", flush=True)
        counts, seconds, reasons = run(lane)
        total += counts
        verdict = "FAILED" if counts["failed"] else "passed" if counts["passed"] else "SKIPPED" if counts else "empty"
        lines.append(
            f"{lane.name:<11} {verdict:<8} {counts['passed']:>5} passed {counts['failed']:>3} failed "
            f"{counts['skipped']:>3} skipped {seconds:>7.1f} s"
        )
        lines += [f"          {count} x {reason}" for reason, count in reasons.most_common(5)]
    print("\n== lanes")
    print("\n".join(lines))
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
