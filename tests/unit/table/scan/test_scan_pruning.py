"""Every layer of a scan leaves out what it can: counted by the explanation, with tables made so that only one layer can tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakeidx.api import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.scan.metrics import LayerTrace
from lakeidx.tasks.runner import LocalRunner


def make(folder: Path, options: dict[str, str], partitions: tuple[str, ...] = ()) -> Table:
    spec = {
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "INT"}],
        "primaryKeys": [*partitions, "k"],
        "partitionKeys": list(partitions),
        "options": options,
    }
    return Table.create(f"{folder}/d.db/t", spec)


def put(table: Table, keys: range, p: int = 0) -> None:
    n = len(keys)
    table.upsert(
        pa.table(
            {"p": pa.array([p] * n, pa.int32()), "k": list(keys), "v": pa.array([k % 50 for k in keys], pa.int32())}
        )
    )


def layers(table: Table, where: str, rows: int) -> dict[str, LayerTrace]:
    explained = table.scan(where=where).explain()
    assert explained.rows == rows
    return {layer.layer: layer for layer in explained.layers}


def test_manifests_and_partitions(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"}, ("p",))
    for p in range(4):
        put(table, range(10), p)
    found = layers(table, "p = 2", 10)
    assert (found["manifest"].came_in, found["manifest"].kept) == (4, 1)
    # With all manifests in one, the partition of each file decides.
    run_compaction(table.metadata, LocalRunner(1), full=True)
    found = layers(table, "p IN (1, 3)", 20)
    assert (found["partition"].kept, found["file index"].came_in) == (2, 2)


def test_a_scan_of_one_key_reads_one_bucket(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "4"})
    put(table, range(200))
    found = layers(table, "k = 77", 1)
    assert (found["bucket"].came_in, found["bucket"].kept) == (4, 1)


def test_buckets_of_a_hash_index(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "-1", "dynamic-bucket.target-row-num": "50"})
    # Keys of each bucket lie between each other's, so that key ranges cannot tell.
    for first in range(4):
        put(table, range(first, 200, 4))
    found = layers(table, "k = 78", 1)
    assert found["bucket"].came_in == 4
    assert found["bucket"].kept == 1


def test_key_ranges_of_files_and_row_groups(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1", "file.block-size": "4 kb", "num-sorted-run.compaction-trigger": "99"})
    for first in (0, 3000, 6000):
        put(table, range(first, first + 3000))
    found = layers(table, "k BETWEEN 3100 AND 3110", 11)
    assert (found["key range"].came_in, found["key range"].kept) == (3, 1)
    assert found["row group"].came_in > 2
    assert found["row group"].kept == 1
    run_compaction(table.metadata, LocalRunner(1), full=True)
    found = layers(table, "k BETWEEN 3100 AND 3110", 11)
    assert found["row group"].kept == 1


def test_value_statistics_where_no_version_hides_another(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "2"})
    put(table, range(100))
    run_compaction(table.metadata, LocalRunner(1), full=True)
    found = layers(table, "v > 60", 0)
    assert (found["value statistics"].came_in, found["value statistics"].kept) == (2, 0)
    # A newer version that matches: both files must be read, or the older one would come back.
    table.upsert(pa.table({"p": pa.array([0], pa.int32()), "k": [7], "v": pa.array([99], pa.int32())}))
    assert layers(table, "v > 60", 1)["file index"].came_in == 2
    assert layers(table, "v = 7 AND k = 7", 0)["merge"].came_in > 0
