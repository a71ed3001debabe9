"""Warming up leaves nothing for the first batch to compile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import event

from lakeidx.maintenance.warm_up import warm_up

ROOT = Path(__file__).parents[3]
_BATCH = """
import sys
from pathlib import Path
from numba.core import event
from lakeidx.testing.small_tables import content, make_table, upsert
with event.install_recorder("numba:compile") as recorder:
    table = make_table(Path(sys.argv[1]))
    upsert(table, [(1, k, "a") for k in range(30)])
    upsert(table, [(1, k, "b") for k in range(15, 45)])
    assert len(content(table)) == 45
print(sorted({str(e.data["dispatcher"]) for _, e in recorder.buffer}))
"""


@pytest.mark.slow
def test_a_first_batch_after_it_compiles_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakeidx.cli.main", "warm-up"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kinds"] > 10
    batch = [sys.executable, "-c", _BATCH, str(tmp_path)]
    told = subprocess.run(batch, capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"


def test_a_second_call_compiles_nothing() -> None:
    steps: list[str] = []
    assert warm_up(steps.append, only=("lookup stores",)) == 1
    with event.install_recorder("numba:compile") as recorder:
        warm_up(only=("lookup stores",))
    assert not recorder.buffer
    assert steps == ["lookup stores"]
