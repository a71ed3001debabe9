from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.data.parquet.row_groups import ParquetSource, RowTest
from lakeidx.data.positions import ReadCounters, RowFilter
from lakeidx.storage import open_store
from tests.kit.metered_store import MeteredStore

ROWS, GROUP = 200_000, 20_000


def test_row_groups_of_a_remote_file_are_fetched_together(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = pa.table({"k": np.arange(ROWS), "v": random.integers(0, 1 << 60, ROWS), "w": random.random(ROWS)})
    path = str(tmp_path / "f.parquet")
    pq.write_table(rows, path, row_group_size=GROUP)
    size = Path(path).stat().st_size
    store = MeteredStore(open_store(path))
    every = RowFilter(None, None)

    def read(names: list[str], test: RowTest | None = None) -> tuple[pa.Table, int, ReadCounters]:
        source, counters = ParquetSource(store, path, size=size), ReadCounters()
        store.reset()
        found = source.batches(
            names, row_filter=every, predicate=None, fields=[], batch_rows=7_000, counters=counters, row_test=test
        )
        table = pa.concat_tables(t for _, t in found)
        return table, store.counts["get_range"].bytes, counters

    table, fetched, counters = read(["k", "w"])
    assert table.equals(rows.select(["k", "w"]))
    assert fetched == counters.bytes_read, "each byte once, and none that is not wanted"
    odd = RowTest(frozenset({"k"}), lambda _, t: pc.equal(pc.bit_wise_and(t["k"], 1), 1).to_numpy())
    table, fetched, counters = read(["k", "v"], odd)
    assert table.equals(rows.select(["k", "v"]).filter(pc.equal(pc.bit_wise_and(rows["k"], 1), 1)))
    assert fetched == counters.bytes_read
