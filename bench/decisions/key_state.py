"""Decision 4: where the keys of a batch live, from sorted pages in RocksDB, from one entry per key, and by reading all keys.

All ways answer the same batch, half of it known, and must give the same locations. Reading all keys stands for a bootstrap from
the table's key columns in every batch: of them only the Parquet file of keys is read and searched, nothing is built.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import rocksdict

from bench.decisions.figure import Figure, cpu_seconds
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.state.key_state import KeyState, StateMeta
from lakeidx.key_index.state.store import MemoryStore, RocksStore

_PAGES, _ENTRIES = "sorted pages of many keys in RocksDB", "one RocksDB entry per key"


def rows_of(keys: np.ndarray) -> RowBytes:
    """Integer keys as byte strings of eight bytes."""
    return RowBytes(keys.astype("<i8").view(np.uint8), np.arange(len(keys) + 1, dtype=np.int64) * 8)


def measure(rows: int, rounds: int, folder: Path) -> list[Figure]:
    """Load, look up small and large batches, and read."""
    rng = np.random.default_rng(4)
    keys = rng.permutation(np.arange(rows, dtype=np.int64) * 3)
    bucket = rng.integers(0, 14, rows).astype(np.int32)
    store = RocksStore(folder / "pages", cache_bytes=64 << 20)
    state = KeyState.create(store, StateMeta("t", "s"), expected_rows=rows)
    single = _entries(folder / "entries")
    file = folder / "keys.parquet"
    pq.write_table(pa.table({"key": keys, "bucket": bucket}), file)
    # The first load compiles.
    warm = KeyState.create(MemoryStore(), StateMeta("t", "s"), expected_rows=10)
    warm.write(rows_of(keys[:10]), np.zeros(10, np.int32), bucket[:10], now=1)
    loading = {_PAGES: 0.0, _ENTRIES: 0.0}
    for start in range(0, rows, 250_000):
        part = slice(start, start + 250_000)
        begun = time.process_time()
        state.write(rows_of(keys[part]), np.zeros(len(keys[part]), np.int32), bucket[part], now=1)
        between = time.process_time()
        written = rocksdict.WriteBatch(raw_mode=True)
        for key, value in zip(keys[part].tolist(), bucket[part].tolist(), strict=True):
            written.put(key.to_bytes(8, "little"), value.to_bytes(4, "little"))
        single.write(written)
        loading[_PAGES] += between - begun
        loading[_ENTRIES] += time.process_time() - between
    state.commit()
    ways = {
        _PAGES: lambda asked: state.lookup(rows_of(asked))[1],
        _ENTRIES: lambda asked: _by_entries(single, asked),
        "read all keys for every batch": lambda asked: _by_table(file, asked),
    }
    out = [Figure(4, w, w == _PAGES, f"load {rows:,} keys", round(s, 2), "CPU s") for w, s in loading.items()]
    for size in (rows // 300, rows // 10):
        asked = np.concatenate([rng.choice(keys, size // 2, replace=False), np.arange(size // 2) * 3 + 1])
        rng.shuffle(asked)
        at = pc.index_in(pa.array(asked), pa.array(keys)).fill_null(-1).to_numpy()
        wanted = np.where(at >= 0, bucket[at], -1)
        for way, work in ways.items():
            seconds, found = cpu_seconds(partial(work, asked), rounds)
            if not np.array_equal(found, wanted):
                sys.exit(f"{way}: wrong locations")
            what = f"locations of {size:,} keys among {rows:,}"
            out.append(Figure(4, way, way == _PAGES, what, round(seconds, 3), "CPU s"))
    return out


def _entries(directory: Path) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    return rocksdict.Rdict(str(directory), options)


def _by_entries(database: Any, asked: np.ndarray) -> np.ndarray:
    found = database.get([k.to_bytes(8, "little") for k in asked.tolist()])
    return np.array([-1 if v is None else int.from_bytes(v, "little") for v in found], np.int32)


def _by_table(file: Path, asked: np.ndarray) -> np.ndarray:
    table = pq.read_table(file)
    at = pc.index_in(pa.array(asked), table.column("key").combine_chunks()).fill_null(-1).to_numpy()
    return np.where(at >= 0, table.column("bucket").to_numpy()[at], -1)
