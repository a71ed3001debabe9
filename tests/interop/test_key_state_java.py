"""The key state of a table is a table for Java, too: it reads and compacts it, and lakeidx goes on with what Java leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakeidx
from lakeidx.batch.index_types import index_folder
from tests.kit.java_paimon import JavaPaimon
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("is_global", ["true", "false"])
def test_java_reads_and_compacts_it(tmp_path: Path, is_global: str) -> None:
    java = JavaPaimon(f"{tmp_path}/java", "d.state")
    table = make_table(tmp_path, options={"index.type": "state", "index.global.enabled": is_global})
    for n in range(3):
        upsert(table, [(k % 2, k, f"{n}") for k in range(10 * n, 10 * n + 20)])
    upsert(table, [(1, 3, "-"), (1, 4, "moved")], ["-D", "+I"])
    state, given = Path(index_folder(table.paths)) / "state" / "1", tmp_path / "java" / "d.db" / "state"
    shutil.copytree(state, given)
    expected = {
        (str(r["k"]), r["_PARTITION"], str(r["_BUCKET"]))
        for r in lakeidx.Table.open(str(state)).scan().to_arrow().to_pylist()
    }
    assert len(expected) == 40 - (is_global == "true") + (is_global == "false")
    assert {(str(r["k"]), r["_PARTITION"], str(r["_BUCKET"])) for r in java.json("read")} == expected
    java.run("compact")
    shutil.rmtree(state)
    shutil.copytree(given, state)
    before = content(table)
    again = lakeidx.Table.open(table.uri)
    done = upsert(again, [(0, 5, "back"), (1, 100, "new")])
    assert done.assign.index_metrics["state_warm"] == 1
    before.pop((1, 5), None) if is_global == "true" else None
    assert content(again) == before | {(0, 5): "back", (1, 100): "new"}
