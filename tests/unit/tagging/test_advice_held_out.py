"""The advice on workloads its costs were not fitted to, at a quarter of the bench's size: the fastest type, or one within 20 %."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_advice_picks_a_fast_type(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "bench" / "bench_advice.py"),
        "--scale",
        "0.25",
        "--json",
        "--dir",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    cases = {f["case"] for f in figures}
    for words in ("random", "time-ordered", "hot-set", "small table", "large table"):
        assert any(words in case for case in cases)
    # A need is met by one type of each workload.
    assert sum(len(f["advised_for"].split(", ")) for f in figures if f["advised_for"]) >= 5 * len(cases)
