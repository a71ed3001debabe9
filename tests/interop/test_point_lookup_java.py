"""Java's local lookup and ours give the same rows: several levels, deletes, keys that never were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

SPEC = {
    "fields": [
        {"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "name", "type": "STRING"},
        {"name": "v", "type": "STRING"},
    ],
    "primaryKeys": ["p", "k", "name"], "partitionKeys": ["p"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "50"},
}  # fmt: skip


def rows(keys: range, text: str, kind: str = "+I") -> pa.Table:
    return pa.table(
        {
            "p": [k % 2 for k in keys], "k": list(keys), "name": [f"é{k % 5}" for k in keys],
            "v": [None if k % 11 == 0 else f"{text}{k}" for k in keys], "_kind": [kind for _ in keys],
        }
    )  # fmt: skip


def test_java_gives_the_same_rows(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/wh/d.db/t", SPEC)
    table.upsert(rows(range(200), "a"))
    run_compaction(table.metadata, LocalRunner(1), full=True)
    table.upsert(rows(range(100, 250), "b"))
    table.upsert(rows(range(50, 150, 3), "", "-D"))
    keys = rows(range(300), "").select(["p", "k", "name"]).to_pylist()
    keys += [{"p": 1, "k": 0, "name": "é0"}, {"p": 7, "k": 1, "name": "é1"}, {"p": 1, "k": 1, "name": "e"}]
    file = tmp_path / "keys.jsonl"
    file.write_text("".join(json.dumps({n: str(v) for n, v in k.items()}) + "\n" for k in keys), encoding="utf-8")
    java = JavaPaimon(f"{tmp_path}/wh", "d.t").json("lookup", str(file))
    assert len(java) == len(keys)
    asked = pa.table({"p": pa.array([k["p"] for k in keys], pa.int32()), "k": [k["k"] for k in keys],
                      "name": [k["name"] for k in keys]})  # fmt: skip

    def ours() -> list[dict[str, object] | None]:
        answer = Table.open(table.uri).lookup(asked).to_pylist()
        return [{n: r[n] for n in ("p", "k", "name", "v")} if r["_FOUND"] else None for r in answer]

    expected = [None if r is None else {n: r[n] for n in ("p", "k", "name", "v")} for r in java]
    assert any(r is None for r in expected[50:150])
    assert ours() == expected, "from data files"
    run_lookup_store(table.metadata, LocalRunner(1))
    assert ours() == expected, "from lookup files"
