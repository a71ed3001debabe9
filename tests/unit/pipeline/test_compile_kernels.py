"""Warming up leaves nothing for the first batch to compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_BATCH = """
import sys
from pathlib import Path
from tests.tables import content, make_table, upsert
table = make_table(Path(sys.argv[1]))
upsert(table, [(1, k, "a") for k in range(30)])
upsert(table, [(1, k, "b") for k in range(15, 45)])
assert len(content(table)) == 45
"""


def compiled(cache: Path) -> set[str]:
    return {p.name for p in cache.rglob("*.nbc")}


def test_a_first_batch_after_it_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "lakeidx.cli.main", "warm-up"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kinds"] > 10
    before = compiled(cache)
    assert len(before) > 50
    subprocess.run([sys.executable, "-c", _BATCH, str(tmp_path)], check=True, env=environment)
    assert compiled(cache) == before
