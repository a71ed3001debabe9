"""Where keys of level 0 are in higher levels: compared with sets of keys."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.compaction import bucket
from lakeidx.compaction.bucket import BucketReader
from lakeidx.compaction.levels import build_levels
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import find_keys_above
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.upserts import upsert_table


def table_with(folder: Path, key_type: str) -> Table:
    fields = [{"name": "k", "type": f"{key_type} NOT NULL"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "target-file-size": "4 kb"}
    return Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "partitionKeys": [], "options": options}
    )


def upsert(table: Table, keys: list[int], batch_id: str) -> None:
    r = random.Random(batch_id)
    values = [r.randbytes(20).hex() for _ in keys]
    k = pa.array(keys).cast(_arrow(table))
    upsert_table(make_context(table.metadata, batch_id, runner=LocalRunner(1)), pa.table({"k": k, "v": values}))


def _arrow(table: Table) -> pa.DataType:
    return table.schema.arrow_schema.field("k").type


def keys_of(reader: BucketReader, file: object) -> list[object]:
    return [k for rows in reader.keys(file) for k in rows.column("k").to_pylist()]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("key_type", ["INT", "STRING", "DECIMAL(30, 0)"])
@pytest.mark.parametrize("batch_rows", [1, 7, 100_000])
def test_positions_are_those_of_the_keys(
    key_type: str, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_BATCH_ROWS", batch_rows)
    table = table_with(tmp_path, key_type)
    r = random.Random(batch_rows)
    upsert(table, r.sample(range(3000), 900), "b0")
    run_compaction(table.metadata, LocalRunner(1), full=True)
    # Rows that are deleted already are not there.
    upsert(table, r.sample(range(3000), 100), "b1")
    run_compaction(table.metadata, LocalRunner(1))
    for i in range(3):
        upsert(table, r.sample(range(1000 * i, 1000 * i + 1000), 50), f"c{i}")
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    (work,) = plan_buckets(table.metadata, table.schema, view, full=False, now_ms=0)
    reader = BucketReader(work)
    files = [e.file for e in view.entries]
    new = [f for f in files if f.level == 0]
    levels = build_levels(files, table.schema.key_types, num_levels=6)
    above = [run for run in levels.runs if run.level > 0]
    assert len(new) == 3
    assert sum(len(run.files) for run in above) >= 2
    found = find_keys_above(reader, table.schema, new, above)

    asked = {k for f in new for k in keys_of(reader, f)}
    alive: set[object] = set()
    expected: dict[str, list[int]] = {}
    for file in (f for run in above for f in run.files):
        gone = set(reader.deleted(file) or ())
        keys = keys_of(reader, file)
        alive |= {k for i, k in enumerate(keys) if i not in gone}
        expected[file.file_name] = [i for i, k in enumerate(keys) if k in asked and i not in gone]
    assert {n: p.tolist() for n, p in found.above.items()} == {n: p for n, p in expected.items() if p}
    known = {f.file_name: [i for i, k in enumerate(keys_of(reader, f)) if k in alive] for f in new}
    assert {n: p.tolist() for n, p in found.known.items()} == {n: p for n, p in known.items() if p}
    assert all(p.dtype == np.int64 for p in (*found.above.values(), *found.known.values()))


def test_files_out_of_reach_are_not_opened(tmp_path: Path) -> None:
    table = table_with(tmp_path, "INT")
    upsert(table, list(range(1000)), "b0")
    run_compaction(table.metadata, LocalRunner(1), full=True)
    upsert(table, [10_000], "b1")
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    (work,) = plan_buckets(table.metadata, table.schema, view, full=False, now_ms=0)
    files = [e.file for e in view.entries]
    above = [run for run in build_levels(files, table.schema.key_types, num_levels=6).runs if run.level > 0]
    for run in above:
        for file in run.files:
            Path(table.paths.data_file({}, 0, file.file_name)).unlink()
    found = find_keys_above(BucketReader(work), table.schema, [f for f in files if f.level == 0], above)
    assert (found.above, found.known) == ({}, {})
