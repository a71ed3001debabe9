"""A rollback that keeps the history: Java reads the state, and still does when it has expired the snapshots before."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeidx
from tests.kit.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop
FIELDS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]


@pytest.mark.parametrize(
    "options", [{"bucket": "2"}, {"bucket": "-1"}, {"bucket": "1", "deletion-vectors.enabled": "true"}]
)
def test_java_expires_and_reads(tmp_path: Path, options: dict[str, str]) -> None:
    spec = {"fields": FIELDS, "primaryKeys": ["k"], "options": options}
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    java = JavaPaimon(str(tmp_path), "d.t")
    table.upsert([{"k": k, "v": "old"} for k in range(6)])
    table.compact(full=True)
    table.upsert([{"k": 1, "v": "newer"}])
    table.compact()
    then = table.snapshot
    assert then is not None
    old = {int(r["k"]): r["v"] for r in java.json("read")}
    java.write([{"k": str(k), "v": "theirs"} for k in range(3, 9)], tmp_path / "rows.jsonl", compact=True)
    table.upsert([{"k": 0, "v": "ours"}])
    table.compact(full=True)
    table.rollback(then.id, keep_history=True)
    assert {int(r["k"]): r["v"] for r in java.json("read")} == old
    java.run("expire")
    table = lakeidx.Table.open(table.uri)
    assert len(table.snapshots()) == 1
    assert {int(r["k"]): r["v"] for r in java.json("read")} == old
    assert {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()} == old
    java.write([{"k": "5", "v": "after"}, {"k": "8", "v": "after"}], tmp_path / "rows.jsonl", compact=True)
    assert {r["k"]: r["v"] for r in lakeidx.Table.open(table.uri).scan().to_arrow().to_pylist()} == {
        **old, 5: "after", 8: "after"
    }  # fmt: skip
    assert [r.name for r in table.verify().results if not r.passed and r.severity == "error"] == []
