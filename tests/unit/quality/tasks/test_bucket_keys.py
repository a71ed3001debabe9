"""Hashes and faults of buckets; keys that live in two of them, `tests/unit/quality/test_cross_partition.py` sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakeidx.api.table import Table
from lakeidx.quality.tasks.bucket_keys import LiveKeys, read_live_keys
from lakeidx.table.scan.plan import plan_scan
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import filled_table, upsert


def _read(table: Table) -> dict[int, LiveKeys]:
    opened = Table.open(table.uri)
    plan = plan_scan(opened.metadata, opened.snapshot, opened.schema)
    plans = [replace(plan, buckets=(b,), trace=()) for b in plan.buckets]
    found = read_live_keys(opened.metadata, plans, LocalRunner(2), across_partitions=False)
    return {one.place[1]: one for one in found}


def test_hashes_of_living_keys_ascend(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, k, "a") for k in range(15)])
    upsert(table, [(1, 3, None)], ["-D"])
    found = _read(table)
    assert {bucket: one.suspects for bucket, one in found.items()} == {0: None, 1: None}
    hashes = [one.hashes for one in found.values()]
    assert all(h is not None and (h[1:] > h[:-1]).all() for h in hashes)
    assert sum(len(h) for h in hashes if h is not None) == 14


def test_a_bucket_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 7, "a")])
    (file,) = Path(table.uri).rglob("data-*.parquet")
    file.write_bytes(file.read_bytes()[:-30])
    (one,) = _read(table).values()
    assert one.hashes is None
    assert one.fault is not None
    assert (one.fault["bucket"], one.fault["file"]) == (0, str(file))
