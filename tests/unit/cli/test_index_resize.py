"""``lakeidx index resize``: what it prints, what it does, clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lakeidx.batch.index_types import index_folder
from lakeidx.cli.main import app
from tests.kit.ring_table import RingTable


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["index", "resize", *(str(a) for a in arguments)])
    assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception}"
    return result


@pytest.fixture
def table(tmp_path: Path) -> RingTable:
    made = RingTable(tmp_path)
    made.index_dir = index_folder(made.handle.paths)
    made.upsert([(p, f"key-{i}", "a") for p in (1, 2) for i in range(30)])
    return made


def test_splits_then_merges(table: RingTable) -> None:
    planned = json.loads(call(table.handle.uri, "--target-size", "1 b", "--dry-run").stdout)
    assert planned["dry_run"]
    assert planned["splits"] == 6
    assert planned["snapshot_ids"] == []
    done = json.loads(call(table.handle.uri, "--target-size", "1 b", "--partition", "p=1").stdout)
    assert (done["splits"], done["snapshot_ids"]) == (3, [2])
    assert [r["partition"] for r in done["resized"]] == ["p=1"] * 3
    table.check()
    # The table's own target-file-size, 1 MB, is far above what is in any bucket.
    assert json.loads(call(table.handle.uri).stdout)["merges"] == 2
    table.check()


@pytest.mark.parametrize("size", ["big", "-1 mb", "0"])
def test_a_size_that_is_none(table: RingTable, size: str) -> None:
    stderr = call(table.handle.uri, f"--target-size={size}", code=2).stderr
    assert "--target-size" in stderr
    assert len(stderr.splitlines()) == 1


def test_a_table_without_rings(tmp_path: Path) -> None:
    plain = RingTable(tmp_path, {"index.type": "hash"})
    stderr = call(plain.handle.uri, code=2).stderr
    assert "CONSISTENT_HASHING" in stderr
    assert len(stderr.splitlines()) == 1
