"""``lakeidx index resize``: what it prints, what it does, clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.batch.index_types import index_folder
from tests.kit.command_line import answer, call
from tests.kit.ring_table import RingTable


@pytest.fixture
def table(tmp_path: Path) -> RingTable:
    made = RingTable(tmp_path)
    made.index_dir = index_folder(made.handle.paths)
    made.upsert([(p, f"key-{i}", "a") for p in (1, 2) for i in range(30)])
    return made


def test_splits_then_merges(table: RingTable) -> None:
    planned = answer("index", "resize", table.handle.uri, "--target-size", "1 b", "--dry-run")
    assert planned["dry_run"]
    assert planned["splits"] == 6
    assert planned["snapshot_ids"] == []
    done = answer("index", "resize", table.handle.uri, "--target-size", "1 b", "--partition", "p=1")
    assert (done["splits"], done["snapshot_ids"]) == (3, [2])
    assert [r["partition"] for r in done["resized"]] == ["p=1"] * 3
    table.check()
    # The table's own target-file-size, 1 MB, is far above what is in any bucket.
    assert answer("index", "resize", table.handle.uri)["merges"] == 2
    table.check()


@pytest.mark.parametrize("size", ["big", "-1 mb", "0"])
def test_a_size_that_is_none(table: RingTable, size: str) -> None:
    stderr = call("index", "resize", table.handle.uri, f"--target-size={size}", code=2).stderr
    assert "--target-size" in stderr
    assert len(stderr.splitlines()) == 1


def test_a_table_without_rings(tmp_path: Path) -> None:
    plain = RingTable(tmp_path, {"index.type": "hash"})
    stderr = call("index", "resize", plain.handle.uri, code=2).stderr
    assert "CONSISTENT_HASHING" in stderr
    assert len(stderr.splitlines()) == 1
