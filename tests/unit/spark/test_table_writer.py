"""The commit of ``frame.write.format("lakeidx")``: above its budget what it holds does not grow with the batch's rows."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport
from lakeidx.errors import InvalidInputError
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from tests.kit.small_tables import make_table

pytestmark = pytest.mark.slow

#: Pools that were counted: buffers that outlive a commit free themselves in theirs.
POOLS: list[pa.MemoryPool] = []
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])


def batches(count: int, value: str) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, 20_000):
        keys = np.arange(first, min(first + 20_000, count))
        columns = [pa.array(np.ones(len(keys), np.int32)), pa.array(keys), pa.array([value] * len(keys))]
        yield pa.record_batch(columns, schema=SCHEMA)


def commit(uri: str, count: int, value: str) -> tuple[int, BucketAssignmentReport]:
    """Write rows as tasks of Spark do, and commit them as its process does; bytes that this took at most, NumPy's and Arrow's."""
    writer = TableWriter(ReadOptions.parse({"path": uri, "batch-id": f"{value}{count}"}), SCHEMA, overwrite=False)
    messages = [writer.write(batches(count, value))]
    gc.collect()
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(counted)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        writer.commit(messages)
        peak = tracemalloc.get_traced_memory()[1] + (counted.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    table = Table.open(uri)
    return peak, BatchFiles(table.store, table.metadata.paths, f"{value}{count}").require(BucketAssignmentReport)


def test_a_commit_above_its_budget_holds_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the rows take as much; within the budget this process takes them all. The table has every row either way."""
    monkeypatch.setattr("lakeidx.batch.parts.PART_ROWS", 20_000)
    monkeypatch.setattr("lakeidx.spark.table_writer.process_count", lambda: 1)
    tables = {
        size: make_table(
            tmp_path / name, options={"index.driver-memory": size, "dynamic-bucket.target-row-num": "1000000"}
        )
        for size, name in (("64 kb", "small"), ("512 mb", "large"))
    }
    commit(tables["512 mb"].uri, 1000, "w")
    few, _ = commit(tables["64 kb"].uri, 20_000, "a")
    many, placed = commit(tables["64 kb"].uri, 200_000, "b")
    whole, at_once = commit(tables["512 mb"].uri, 200_000, "b")
    assert many - few < 1 << 20
    assert whole > 200_000 * 20
    assert placed.in_tasks
    assert not at_once.in_tasks
    assert (placed.updates, placed.inserts) == (20_000, 180_000)
    for table in tables.values():
        found = Table.open(table.uri).scan().to_arrow()
        assert found.num_rows == 200_000
        assert found.column("k").combine_chunks().unique().to_numpy().sum() == 200_000 * 199_999 // 2
        assert found.column("v").combine_chunks().unique().to_pylist() == ["b"]


def test_an_empty_batch_id_is_refused(tmp_path: Path) -> None:
    """It drew a new id with each try, so the rows of a write that came again were added again."""
    options = ReadOptions.parse({"path": make_table(tmp_path).uri, "batch-id": ""})
    with pytest.raises(InvalidInputError, match="batch"):
        TableWriter(options, SCHEMA, overwrite=False)
