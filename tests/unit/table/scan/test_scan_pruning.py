"""Every layer of a scan leaves out what it can: counted by the explanation, with tables made so that only one layer can tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import EMPTY_STATS, DataFileMeta, SimpleStats
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import ColumnStats
from lakeidx.table.scan.metrics import LayerTrace
from lakeidx.table.scan.plan import stats_of
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import DataType, Root
from tests.kit.small_tables import table_spec


def make(folder: Path, options: dict[str, str], partitions: tuple[str, ...] = ()) -> Table:
    spec = table_spec("p INT, k BIGINT, v INT", [*partitions, "k"], partitions=list(partitions), options=options)
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


def test_another_scan_of_the_same_state_takes_its_files_as_they_were_decoded(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "2"})
    put(table, range(20))
    put(table, range(5))

    def files() -> list[DataFileMeta]:
        return [f for b in table.scan(where="v = 3").plan.buckets for f in b.files()]

    first = files()
    assert first
    assert all(a is b for a, b in zip(first, files(), strict=True))
    put(table, range(20, 40))
    assert len(files()) > len(first)


def test_statistics_of_columns_that_nobody_asks_for_are_not_decoded() -> None:
    types = [DataType(Root.INT), DataType(Root.VARCHAR, length=100)]
    low, high = (with_arity(encode_row([v, "x" * 20], types), 2) for v in (1, 9))
    # The text of the second column lies outside of its row.
    stats = SimpleStats(low[:-24], high[:-24], (0, 0))
    assert stats_of(stats, ["a", "b"], types, 5, {"a", "other"}) == {"a": ColumnStats(1, 9, 0, 5)}
    with pytest.raises(CorruptFileError):
        stats_of(stats, ["a", "b"], types, 5)
    with pytest.raises(CorruptFileError, match="statistics of 2 columns have 1 null counts"):
        stats_of(SimpleStats(low, high, (0,)), ["a", "b"], types, 5)


def test_what_a_writer_left_out_prunes_nothing() -> None:
    """paimon-rust may leave statistics null; a count of 0 is none."""
    types = [DataType(Root.INT), DataType(Root.DATE)]
    unknown = {name: ColumnStats() for name in ("a", "b")}
    assert stats_of(EMPTY_STATS, ["a", "b"], types, 0) == unknown
    assert stats_of(EMPTY_STATS, ["a", "b"], types, 5, {"a"}) == {"a": ColumnStats(row_count=5)}
    assert stats_of(EMPTY_STATS, [], [], 5) == {}
