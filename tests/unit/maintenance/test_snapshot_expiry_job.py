"""`jobs/snapshot_expiry.py` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lakeidx.testing.reachable import files_on_disk, reachable, reopened
from lakeidx.testing.small_tables import content, make_table, upsert

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "jobs/snapshot_expiry.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_it_says_what_would_go_and_then_lets_it_go(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = make_table(tmp_path, options=options)
    for i in range(5):
        upsert(table, [(1, k, f"{i}-{k}") for k in range(3)], overwrite="table")
    before, on_disk = content(table), files_on_disk(table)
    dry = run(table.uri, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    said = json.loads(dry.stdout)
    assert (said["dry_run"], said["snapshots"], said["earliest"]) == (True, [1, 2, 3], 4)
    assert files_on_disk(table) == on_disk
    done = json.loads(run(table.uri).stdout)
    assert {k: v for k, v in said.items() if k not in ("dry_run", "list")} == {
        k: v for k, v in done.items() if k != "dry_run"
    }
    gone = on_disk - files_on_disk(table)
    assert {str(Path(f["path"]).relative_to(table.uri)) for f in said["list"]} == gone
    assert len(gone) == done["files"]
    assert files_on_disk(table) == reachable(table)
    assert content(reopened(table)) == before


def test_a_table_that_is_none_is_one_line(tmp_path: Path) -> None:
    done = run(str(tmp_path / "nothing"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "nothing") in done.stderr
