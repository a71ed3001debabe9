"""Resizing rings whose buckets hold keys that the ring does not send there: nothing is lost, and hashes stay together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.index_types import index_folder
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.maintenance.ring_resize import run_ring_resize
from lakeidx.tasks.runner import LocalRunner
from tests.kit.index_history import LOCAL_TYPES, IndexedTable, Model, Row, apply, fixed_history


def _with_type(table: IndexedTable, name: str) -> None:
    """Another index type for a table that is there."""
    metadata = Table.open(table.table.uri).metadata
    old = metadata.latest_schema()
    new = dataclasses.replace(old, id=old.id + 1, options={**old.options, **LOCAL_TYPES[name],
                              "hoodie.bucket.index.num.buckets": "16", "hoodie.bucket.index.max.num.buckets": "64",
                              "hoodie.bucket.index.min.num.buckets": "1"})  # fmt: skip
    metadata.store.put(metadata.paths.schema_path(new.id), encode_schema(new))


def _resize(table: IndexedTable, target_bytes: int) -> int:
    metadata = Table.open(table.table.uri).metadata
    report = run_ring_resize(
        metadata,
        LocalRunner(1),
        index_dir=index_folder(metadata.paths),
        target_bytes=target_bytes,
        sleep=lambda _: None,
    )
    return report.splits + report.merges


@pytest.mark.slow
def test_keys_placed_by_another_rule_survive(tmp_path: Path) -> None:
    """Rows that the PartitionIndex rules placed, as Java's writers do, in a table that then gets rings."""
    table = IndexedTable.make(tmp_path, "hash", {})
    history = fixed_history(29, batches=4, size=40)
    model: Model = {}
    for number, batch in enumerate(history[:2]):
        table.upsert(batch, f"b{number}")
        apply(model, batch, over_partitions=False)
    _with_type(table, "bucket ring")
    assert _resize(table, 1) > 0
    table.check(model)
    table.upsert(history[2], "b2")
    apply(model, history[2], over_partitions=False)
    table.check(model)
    assert _resize(table, 1 << 20) > 0
    table.upsert(history[3], "b3")
    apply(model, history[3], over_partitions=False)
    table.check(model)


@pytest.mark.slow
def test_keys_of_one_hash_stay_in_one_bucket(tmp_path: Path) -> None:
    """Pairs of keys with equal hashes, which the ring knows nothing of."""
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 62, 400_000))
    table = IndexedTable.make(tmp_path, "bucket ring", LOCAL_TYPES["bucket ring"])
    hashes = hash_columns([pa.array(keys)], table.table.schema.key_types)
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    pairs = np.unique(keys[np.concatenate([order[same], order[same + 1]])]).tolist()
    assert len(pairs) >= 10
    batch: list[Row] = [(1, k, f"{k}", "+I") for k in [*pairs, *range(100)]]
    _with_type(table, "bucket ring")
    model: Model = {}
    table.upsert(batch, "b0")
    apply(model, batch, over_partitions=False)
    table.check(model)
    assert _resize(table, 1) > 0
    table.check(model)
    assert _resize(table, 1 << 20) > 0
    table.check(model)
