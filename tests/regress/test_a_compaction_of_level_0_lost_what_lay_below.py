"""With force-lookup and a full-compaction producer a compaction brought level 0 up without what lies below it.

Readers take a record above level 0 for all that is below, so values of other columns, sums, and rows with a larger sequence
vanished. Java's compactions of such tables lose them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner

#: Options -> v and w of key 1, written as (v=5, w null) and then as (v=2, w='new').
ENGINES = {
    "partial-update": ({"merge-engine": "partial-update"}, (2, "new")),
    "sum": ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, (7, "new")),
    "sequence": ({"sequence.field": "v"}, (5, None)),
    "deduplicate": ({}, (2, "new")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("with_lookup_files", [False, True])
def test_no_compaction_changes_a_row(tmp_path: Path, name: str, with_lookup_files: bool) -> None:
    options, wanted = ENGINES[name]
    spec = {
        "fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "BIGINT"}, {"name": "w", "type": "STRING"},
                   {"name": "x", "type": "INT"}],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "force-lookup": "true", "changelog-producer": "full-compaction", **options},
    }  # fmt: skip
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)

    def upsert(keys: range, v: int, w: str | None, x: int | None) -> None:
        row = {"v": pa.int64(), "w": pa.string(), "x": pa.int32()}
        columns = {n: pa.array([value] * len(keys), t) for (n, t), value in zip(row.items(), (v, w, x), strict=True)}
        table.upsert(pa.table({"k": pa.array(keys, pa.int32()), **columns}))

    upsert(range(300), 5, None, 8)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    if with_lookup_files:
        run_lookup_store(table.metadata, LocalRunner(1))
    upsert(range(1, 2), 2, "new", None)
    x = 8 if name in ("partial-update", "sum", "sequence") else None
    for full in (False, True):
        run_compaction(table.metadata, LocalRunner(1), full=full)
        assert {f["level"] for f in table.files()} == ({5} if full else {4, 5})
        (row,) = table.scan(where="k = 1").to_arrow().to_pylist()
        assert (row["v"], row["w"], row["x"]) == (*wanted, x)
        (row,) = table.lookup(pa.table({"k": pa.array([1], pa.int32())})).to_pylist()
        assert (row["v"], row["w"], row["x"]) == (*wanted, x)
    told = table.changes(1, mode="changelog", where="k = 1").to_arrow().to_pylist()
    same = [{"_rowkind": "+I", "k": 1, "v": 5, "w": None, "x": 8}]
    changed = [
        {"_rowkind": "-U", "k": 1, "v": 5, "w": None, "x": 8},
        {"_rowkind": "+U", "k": 1, "v": wanted[0], "w": wanted[1], "x": x},
    ]
    assert told == same + changed
