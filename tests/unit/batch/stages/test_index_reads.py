"""How often a batch reads and writes HASH index files: once each, and written only where a hash is new."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.assignment.placing import place_batch
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.storage.base import ObjectStore
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.small_tables import content, filled_table, rows
from tests.kit.upserts import upsert_table


def _put(table: Table, keys: range, value: str, assigners: int) -> tuple[Counter[str], Any]:
    """Upsert keys of partition 1 in a fresh handle; how often index files were read, and the result."""
    handle = Table.open(table.uri)
    store = FaultStore(handle.store)
    handle.metadata.store = store
    large = {"driver_bytes": 0} if assigners else {}
    context = make_context(handle.metadata, f"{value}-{assigners}", runner=LocalRunner(max(1, assigners)), **large)  # type: ignore[arg-type]
    result = upsert_table(context, rows([(1, k, value) for k in keys]))
    return Counter(Path(path).name for verb, path in store.calls if verb == "get" and "/index/" in path), result


@pytest.mark.slow
@pytest.mark.parametrize("assigners", [0, 1])
def test_updates_read_each_index_file_once_and_write_none(tmp_path: Path, assigners: int) -> None:
    table = filled_table(tmp_path, [(p, k, "a") for p in (1, 2) for k in range(35)])
    before = load_view(table.metadata, table.snapshot).index
    assert len(before) == 8
    reads, result = _put(table, range(5, 20), "b", assigners)
    assert (result.assign.updates, result.assign.inserts) == (15, 0)
    assert {t.new_hashes for t in result.assign.targets} == {0}
    # Those of partition 1, each by assignment alone.
    mine = {
        e.file_name
        for e in before
        if e.bucket >= 0 and e.partition == bytes.fromhex(result.assign.targets[0].partition)
    }
    assert reads == Counter(mine)
    after = Table.open(table.uri)
    assert {e.file_name for e in load_view(after.metadata, after.snapshot).index} == {e.file_name for e in before}
    assert content(after) == {(p, k): "b" if p == 1 and 5 <= k < 20 else "a" for p in (1, 2) for k in range(35)}


@pytest.mark.parametrize("assigners", [0, 1])
def test_a_new_hash_rewrites_the_file_of_its_bucket_alone(tmp_path: Path, assigners: int) -> None:
    table = filled_table(tmp_path, [(1, k, "a") for k in range(35)])
    before = {e.bucket: e for e in load_view(table.metadata, table.snapshot).index}
    reads, result = _put(table, range(33, 37), "b", assigners)
    new = {t.bucket: t.new_hashes for t in result.assign.targets}
    assert sum(n or 0 for n in new.values()) == 2
    after = Table.open(table.uri)
    for entry in load_view(after.metadata, after.snapshot).index:
        old = before[entry.bucket]
        assert (entry.file_name != old.file_name) == bool(new.get(entry.bucket))
        assert entry.row_count == old.row_count + (new.get(entry.bucket) or 0)
        # Assignment reads every file of the partition; the process has the one that index_write merges into.
        assert reads[old.file_name] == 1
        stored = decode_hash_index(Path(after.paths.index_path(entry.file_name)).read_bytes())
        assert stored.tolist() == sorted(set(stored.tolist()))


class _Together:
    """A store whose index files are given when eight of them are asked for at once."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.barrier = threading.Barrier(8, timeout=HANGS_SECONDS)

    def get(self, path: str) -> bytes:
        if "/index/" in path:
            self.barrier.wait()
        return self.inner.get(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.slow
@pytest.mark.parametrize("index_type", ["hash", "simple"])
def test_index_files_of_many_partitions_are_read_side_by_side(tmp_path: Path, index_type: str) -> None:
    table = filled_table(tmp_path, [(p, 1, "a") for p in range(16)], options={"index.type": index_type})
    handle = Table.open(table.uri)
    handle.metadata.store = _Together(handle.store)
    context = make_context(handle.metadata, "new-keys")
    ingest = stage_table(context.files, handle.schema, rows([(p, 2, "b") for p in range(16)]))
    placed = place_batch(context, ingest, handle.schema, handle.snapshot, context.files.new_dir("bucket_assignment"))
    # Each partition's one bucket has room.
    assert [(bucket, n) for (_, bucket), n in zip(placed.places, placed.rows, strict=True)] == [(0, 1)] * 16
    assert placed.counts.inserts == 16
