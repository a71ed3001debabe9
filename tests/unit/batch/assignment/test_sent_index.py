"""HASH index files on their way to placing tasks: each is read once, and the rules are those of Paimon's assigners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.routed_keys import partition_hash
from lakeidx.batch.assignment.sent_index import IndexFiles, SentIndex, plan_index_files, send_index_files
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.target_files import read_part_targets, tasks_of_part
from lakeidx.batch.upsert import ingest_rows, make_context, upsert_table
from lakeidx.bucket_assignment.rules import RandomBuckets
from lakeidx.errors import CorruptFileError
from lakeidx.storage.local import LocalStore
from lakeidx.table.handle import TableHandle
from lakeidx.table.index_files import read_hash_index
from lakeidx.table.key_buckets import hash_entries, key_hashes
from lakeidx.tasks.routed_rows import Block, cut_rows, group_targets
from lakeidx.tasks.runner import LocalRunner
from tests.assigner_tasks import AssignerSet, HashBucketAssigner, PartitionKey
from tests.kit.small_tables import make_table, rows

PARTITIONS, KEYS, TASKS = 2, 400, 3


class CountedReads(LocalStore):
    """Counts how often each HASH index file is read."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.reads: Counter[str] = Counter()

    def get(self, path: str) -> bytes:
        name = path.rsplit("/", 1)[-1]
        if name.startswith("index-") and not name.startswith("index-manifest"):
            self.reads[name] += 1
        return super().get(path)


@pytest.fixture
def table(tmp_path: Path) -> TableHandle:
    """Two partitions whose buckets hold up to 20 keys each."""
    made = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "20"})
    upsert_table(make_context(made.metadata, "fill"), batch_of(0, KEYS))
    return made


def batch_of(first: int, last: int) -> pa.Table:
    return rows([(k % PARTITIONS, k, "x") for k in range(first, last)])


def files_of(table: TableHandle) -> dict[bytes, dict[int, Any]]:
    snapshot = table.metadata.latest_snapshot()
    assert snapshot is not None
    manifest = table.metadata.load_index_manifest(snapshot.index_manifest)
    return hash_entries(table.metadata, snapshot, {e.partition for e in manifest})


def work_of(table: TableHandle, tasks: int) -> PlaceWork:
    context = make_context(table.metadata, "b")
    return PlaceWork.of(context, table.schema, table.metadata.latest_snapshot(), "none", tasks)


def sent(work: PlaceWork, items: list[IndexFiles], task: int, columns: list[Any], held: int) -> SentIndex:
    """What the map side sends to one task, and what it keeps of that."""
    tasks = work.plan.num_channels

    def blocks() -> Iterator[Block]:
        for item in items:
            for routed in send_index_files(work, item, is_global=False):
                for cut in cut_rows(routed, group_targets([1] * tasks, 1)):
                    yield from (b for b in cut.blocks() if b.target == task)

    index = SentIndex.of(columns, held)
    assert not list(index.take(blocks()))
    return index


def test_every_index_file_is_read_once_and_the_write_reads_none_that_gets_no_new_hash(table: TableHandle) -> None:
    store = CountedReads(table.store.uri)
    metadata = TableHandle(store, table.paths).metadata
    files = files_of(table)
    count = sum(map(len, files.values()))
    assert count >= 2 * TASKS * PARTITIONS
    context = make_context(metadata, "b", runner=LocalRunner(TASKS), driver_bytes=0)
    ingest_rows(context, batch_of(0, KEYS))
    assigned = run_bucket_assignment(context)
    assert (assigned.updates, assigned.inserts) == (KEYS, 0)
    assert assigned.placing_tasks
    assert sorted(store.reads.values()) == [1] * count
    run_index_write(context, 1)
    assert sorted(store.reads.values()) == [1] * count


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_buckets_are_those_of_assigners_that_load_the_files(table: TableHandle, tasks: int) -> None:
    files, schema = files_of(table), table.schema
    batch = batch_of(KEYS // 2, 2 * KEYS)
    context = make_context(table.metadata, "b", runner=LocalRunner(tasks), driver_bytes=0)
    result = upsert_table(context, batch)
    (part,), (path,) = result.ingest.parts, result.assign.targets_paths
    numbers = read_part_targets(table.store, path, tasks_of_part(result.assign.placing_tasks, 0), part.rows)
    found = np.array([result.assign.targets[n].bucket for n in numbers])

    class Loader:
        def load(self, partition: bytes) -> list[tuple[int, Any]]:
            return [(b, read_hash_index(table.metadata, schema, e)) for b, e in sorted(files[partition].items())]

    plan = work_of(table, tasks).plan
    assert plan.num_channels == tasks
    java = AssignerSet(plan, lambda i: HashBucketAssigner(plan, i, Loader(), RandomBuckets.seeded(f"b#{i}")))
    partitions = sorted(files)
    codes = (batch.column("p").to_numpy() % PARTITIONS).astype(np.int32)
    keys = [PartitionKey(p, partition_hash(p)) for p in partitions]
    assert [bytes.fromhex(result.assign.targets[n].partition) for n in numbers] == [partitions[c] for c in codes]
    wanted = java.assign(keys, codes, key_hashes(schema, batch))
    assert found.tolist() == wanted.buckets.tolist()
    assert result.assign.inserts == int(wanted.is_new.sum()) == KEYS


@pytest.mark.parametrize("held", [0, 1 << 20], ids=["all kept", "filtered"])
def test_a_task_gets_its_hashes_of_every_file(table: TableHandle, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeidx.batch.assignment.sent_index._ITEM_FILES", 3)
    work, files = work_of(table, TASKS), files_of(table)
    items = plan_index_files(files, 4)
    assert [item.order for item in items] == list(range(4, 4 + len(items)))
    assert max(len(item.entries) for item in items) == 3
    some = key_hashes(table.schema, batch_of(0, 50))
    came = 0
    for task in range(TASKS):
        index = sent(work, items, task, [some], held)
        came += index.rows_read
        for partition, entries in files.items():
            hits = index.hits(partition, [some], threads=1)
            assert [(b, n) for b, _, n in hits] == [(b, e.row_count) for b, e in sorted(entries.items())]
            for bucket, hashes, _ in hits:
                whole = read_hash_index(table.metadata, table.schema, entries[bucket])
                own = whole[work.plan.assigner_of(partition_hash(partition), whole) == task]
                if held:
                    assert set(own.tolist()) & set(some.tolist()) <= set(hashes.tolist()) <= set(own.tolist())
                else:
                    assert hashes.tolist() == own.tolist()
    assert came == KEYS


def test_shares_of_files_are_bounded_by_their_hashes(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeidx.batch.assignment.sent_index._ITEM_HASHES", 45)
    items = plan_index_files(files_of(table), 0)
    assert max(sum(e.row_count for e in item.entries) for item in items) <= 45
    assert sum(e.row_count for item in items for e in item.entries) == KEYS
    assert plan_index_files({}, 0) == []


def test_a_damaged_index_file_is_named(table: TableHandle) -> None:
    (item,) = plan_index_files(files_of(table), 0)
    entry = item.entries[0]
    bad = IndexFiles(0, (replace(entry, row_count=entry.row_count + 1),))
    with pytest.raises(CorruptFileError, match=f"{entry.file_name}: the hash index file has {entry.row_count} hashes"):
        list(send_index_files(work_of(table, TASKS), bad, is_global=False))
