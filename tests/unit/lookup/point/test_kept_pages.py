"""Pages of data files that stay between lookups: within the cache's bound, and the same answers with and without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.data.parquet import picked
from lakeidx.data.parquet.page_reader import Page
from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.point.kept_pages import KeptPages
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.storage.local import LocalStore

ROWS = 60_000


def page(size: int) -> Page:
    return Page(np.full(13, size), bytes([size]) * size, 0)


def test_the_page_used_longest_ago_goes() -> None:
    cache = BlockCache(100)
    one, other = KeptPages(cache), KeptPages(cache)
    one.offer({4: page(40)})
    other.offer({4: page(41)})
    assert one.find([4, 9]) != [None, None]
    other.offer({90: page(50)})
    found = one.find([4])[0]
    assert found is not None
    assert (found.header[0], found.body) == (40, bytes([40]) * 40)
    assert other.find([4]) == [None]
    assert cache.stats().used_bytes == 90
    # One that is larger than all the room drops nothing.
    one.offer({5: page(101)})
    assert one.find([5]) == [None]
    assert cache.stats().evictions == 1
    del one
    assert cache.stats().used_bytes == 50


def texts(rows: int) -> pa.Table:
    some = np.random.default_rng(2)
    return pa.table({
        "k": pa.array(range(rows), pa.int64()),
        "t": [f"{'long ' * 9}{i}" if i % 7 else None for i in range(rows)],
        "few": some.choice(["a", "bb", ""], rows).tolist(),
        "n": some.integers(0, 1 << 40, rows),
    })  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "none", "snappy"])
@pytest.mark.parametrize("bound", [1 << 30, 300_000, 0])
def test_values_are_the_same_from_kept_pages(tmp_path: Path, bound: int, codec: str, version: str) -> None:
    table, path = texts(ROWS), str(tmp_path / "f.parquet")
    pq.write_table(
        table, path, compression=codec, data_page_version=version, max_rows_per_page=5000, write_page_index=True,
        write_page_checksum=True, row_group_size=ROWS // 2, column_encoding={"n": "DELTA_BINARY_PACKED"},
        use_dictionary=["few"],
    )  # fmt: skip
    cache = BlockCache(bound)
    kept = KeptPages(cache)
    source, some = ParquetSource(LocalStore(), path), np.random.default_rng(5)
    for _ in range(6):
        rows = np.unique(some.integers(0, ROWS // 2, 40))
        for group in range(2):
            for name in table.column_names:
                chunk = source.chunk(group, name)
                assert chunk is not None
                (values,), _ = picked.pick(pa.OSFile(path), [[chunk]], rows + chunk.first, kept)
                expected = table.column(name).take(pa.array(rows + group * (ROWS // 2))).combine_chunks()
                assert expected.equals(values)
    assert cache.stats().used_bytes <= bound
    # Where not all of them fit, each is gone before its turn comes again.
    assert (cache.stats().hits > 0) == (codec != "none" and bound == 1 << 30)


def test_a_damaged_page_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(texts(9000), path, compression="zstd", max_rows_per_page=3000, write_page_index=True,
                   write_page_checksum=True, use_dictionary=False)  # fmt: skip
    chunk = ParquetSource(LocalStore(), str(path)).chunk(0, "t")
    assert chunk is not None
    raw = bytearray(path.read_bytes())
    raw[int(chunk.table.offsets[2]) - 1] ^= 1
    kept = KeptPages(BlockCache())
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="checksum"):
            picked.pick(pa.BufferReader(bytes(raw)), [[chunk]], np.array([1, 3001, 8000]), kept)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    spec = {
        "fields": [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "t", "type": "STRING"}, {"name": "few", "type": "STRING"},
                   {"name": "n", "type": "BIGINT"}],
        "primaryKeys": ["k"], "options": {"bucket": "2", "lookup.store.values": "position"},
    }  # fmt: skip
    made = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    made.upsert(texts(ROWS))
    made.build_lookup_store()
    return made


def asked(lookup: TableLookup, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, ROWS, 90)
    assert lookup.lookup(pa.table({"k": keys})).rows.equals(texts(ROWS).take(pa.array(keys)))


@pytest.mark.slow
def test_a_lookup_finds_the_pages_of_the_one_before(table: Table) -> None:
    cache = BlockCache()
    lookup = TableLookup(table.metadata, blocks=cache)
    asked(lookup, 1)
    first = cache.stats()
    asked(lookup, 2)
    second = cache.stats()
    assert second.loads == first.loads
    assert second.hits - first.hits >= first.blocks
    # Another batch writes other files.
    table.upsert(texts(ROWS).slice(0, 500))
    asked(lookup, 3)
