"""Keys that live in two buckets leave their tasks; all others leave their hash alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from lakeidx.api.table import Table
from lakeidx.quality.tasks.bucket_keys import LiveKeys, read_live_keys
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.scan.plan import plan_scan
from lakeidx.table.view import load_view
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


def test_a_key_in_two_buckets_is_a_suspect_of_both(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 7, "a"), (1, 8, "b")], [(1, 9, "c")])
    _forge_bucket(table, 5)
    found = _read(table)
    suspects = [found[0].suspects, found[5].suspects]
    assert [s is not None and len(s.keys) for s in suspects] == [2, 2]
    assert sorted(suspects[0].hashes.tolist()) == sorted(suspects[1].hashes.tolist())  # type: ignore[union-attr]
    assert [len(found[b].hashes) for b in (0, 5)] == [3, 2]  # type: ignore[arg-type]


def test_a_bucket_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 7, "a")])
    (file,) = Path(table.uri).rglob("data-*.parquet")
    file.write_bytes(file.read_bytes()[:-30])
    (one,) = _read(table).values()
    assert one.hashes is None
    assert one.fault is not None
    assert (one.fault["bucket"], one.fault["file"]) == (0, str(file))


def _forge_bucket(table: Table, bucket: int) -> None:
    """Put the oldest file of bucket 0 into another one, too, as a writer does that knows nothing of the index."""
    opened = Table.open(table.uri)
    entry = min(load_view(opened.metadata, opened.snapshot).entries, key=lambda e: e.file.max_sequence_number)
    (source,) = Path(table.uri).rglob(entry.file.file_name)
    target = source.parents[1] / f"bucket-{bucket}" / source.name
    target.parent.mkdir()
    shutil.copy(source, target)
    request = CommitRequest(commit_user="forger", changes=TableChanges(append=(replace(entry, bucket=bucket),)))
    commit_changes(opened.metadata, request)
