"""Placing through the HASH index in tasks: the rules are those of Paimon's assigners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.assignment.placement import partition_hash
from lakeidx.batch.context import make_context
from lakeidx.batch.target_files import read_part_targets
from lakeidx.bucket_assignment.rules import RandomBuckets
from lakeidx.table.index_files import read_hash_index
from lakeidx.table.key_buckets import hash_entries, key_hashes
from lakeidx.tasks.runner import LocalRunner
from tests.kit.assigner_tasks import AssignerSet, AssignPlan, HashBucketAssigner, PartitionKey
from tests.kit.small_tables import make_table, rows
from tests.kit.upserts import upsert_table

PARTITIONS, KEYS = 2, 400


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two partitions whose buckets hold up to 20 keys each."""
    made = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "20"})
    upsert_table(make_context(made.metadata, "fill"), batch_of(0, KEYS))
    return made


def batch_of(first: int, last: int) -> pa.Table:
    return rows([(k % PARTITIONS, k, "x") for k in range(first, last)])


def files_of(table: Table) -> dict[bytes, dict[int, Any]]:
    snapshot = table.metadata.latest_snapshot()
    assert snapshot is not None
    manifest = table.metadata.load_index_manifest(snapshot.index_manifest)
    return hash_entries(table.metadata, snapshot, {e.partition for e in manifest})


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_buckets_are_those_of_assigners_that_load_the_files(table: Table, tasks: int) -> None:
    files, schema = files_of(table), table.schema
    batch = batch_of(KEYS // 2, 2 * KEYS)
    context = make_context(table.metadata, "b", runner=LocalRunner(tasks), driver_bytes=0)
    result = upsert_table(context, batch)
    (part,), (path,) = result.ingest.parts, result.assign.targets_paths
    numbers = read_part_targets(table.store, path, result.assign.placing_tasks[0], part.rows)
    found = np.array([result.assign.targets[n].bucket for n in numbers])

    def load(partition: bytes) -> list[tuple[int, Any]]:
        return [(b, read_hash_index(table.metadata, schema, e)) for b, e in sorted(files[partition].items())]

    plan = AssignPlan(num_channels=tasks, num_assigners=tasks, target_rows=20, max_buckets=-1)
    java = AssignerSet(plan, lambda i: HashBucketAssigner(plan, i, load, RandomBuckets.seeded(f"b#{i}")))
    partitions = sorted(files)
    codes = (batch.column("p").to_numpy() % PARTITIONS).astype(np.int32)
    keys = [PartitionKey(p, partition_hash(p)) for p in partitions]
    assert [bytes.fromhex(result.assign.targets[n].partition) for n in numbers] == [partitions[c] for c in codes]
    wanted = java.assign(keys, codes, key_hashes(schema, batch))
    assert found.tolist() == wanted.buckets.tolist()
    assert result.assign.inserts == int(wanted.is_new.sum()) == KEYS
    places = {(partitions[c], b) for c, b in zip(codes, found.tolist(), strict=True)}
    assert result.assign.new_buckets == len(places - {(p, b) for p in files for b in files[p]}) > 0
