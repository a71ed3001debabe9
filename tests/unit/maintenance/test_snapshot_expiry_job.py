"""`lakeidx.jobs.snapshot_expiry`: what it prints, deletes and ends with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeidx.jobs.snapshot_expiry import main
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.reachable import files_on_disk, reachable, reopened
from tests.kit.small_tables import content, make_table, upsert

ROOT = Path(__file__).parents[3]


def test_it_says_what_would_go_and_then_lets_it_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = make_table(tmp_path, options=options)
    for i in range(5):
        upsert(table, [(1, k, f"{i}-{k}") for k in range(3)], overwrite="table")
    before, on_disk = content(table), files_on_disk(table)
    assert main([table.uri, "--dry-run"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["dry_run"], said["snapshots"], said["earliest"]) == (True, [1, 2, 3], 4)
    assert files_on_disk(table) == on_disk
    assert main([table.uri]) == 0
    done = json.loads(capsys.readouterr().out)
    measured = ("dry_run", "list", "seconds", "memory")
    assert {k: v for k, v in said.items() if k not in measured} == {k: v for k, v in done.items() if k not in measured}
    assert said.keys() - {"list"} == done.keys()
    gone = on_disk - files_on_disk(table)
    assert {str(Path(f["path"]).relative_to(table.uri)) for f in said["list"]} == gone
    assert len(gone) == done["files"]
    assert files_on_disk(table) == reachable(table)
    assert content(reopened(table)) == before


@pytest.mark.slow
def test_a_table_that_is_none_is_one_line(tmp_path: Path) -> None:
    """As spark-submit runs it: in a process of its own."""
    command = [sys.executable, "jobs/run.py", "snapshot_expiry", str(tmp_path / "nothing")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "nothing") in done.stderr
