"""A hash index that was made anew from the data: Java reads the table, writes each key into its bucket, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx import Table
from tests.kit.java_paimon import JavaPaimon
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.interop


def test_java_goes_on_after_a_rebuild(tmp_path: Path) -> None:
    uri = make_table(tmp_path).uri
    java = JavaPaimon(f"{tmp_path}/wh", "d.t")
    model = {(p, k): f"a{k}" for p in (1, 2) for k in range(25)}
    upsert(Table.open(uri), [(p, k, v) for (p, k), v in model.items()])
    for lost in (Path(uri) / "index").iterdir():
        lost.unlink()
    rebuilt = Table.open(uri).rebuild_index(index_type="hash")
    assert len(rebuilt.snapshot_ids) == 1
    # Known keys and new ones, into buckets that Java finds by the new files.
    new = {(p, k): f"j{k}" for p in (1, 2) for k in range(10, 45)}
    java.write([{"p": p, "k": k, "v": v} for (p, k), v in new.items()], tmp_path / "rows.jsonl")
    model |= new
    assert {(r["p"], r["k"]): r["v"] for r in java.json("read")} == model
    assert content(Table.open(uri)) == model
    assert Table.open(uri).verify().passed
    # And of what Java wrote.
    for lost in (Path(uri) / "index").iterdir():
        lost.unlink()
    Table.open(uri).rebuild_index(index_type="hash")
    upsert(Table.open(uri), [(1, 30, "z")])
    java.write([{"p": 1, "k": 31, "v": "y"}], tmp_path / "rows.jsonl", compact=True)
    model |= {(1, 30): "z", (1, 31): "y"}
    assert {(r["p"], r["k"]): r["v"] for r in java.json("read")} == model
    assert Table.open(uri).verify().passed
