"""Decision 4: where the keys of a batch live, from segments of the key state, and by what was rejected.

A store that takes 30 ms for each request stands for an object store; its bytes are those of this process. All ways answer the same
batch, nine tenths of it known, and must give the same locations:

*   blocks of places and prints, keys where only they can tell (chosen), with no key and with one in a hundred that moves
*   the keys of every row: what it costs to ask for them all
*   sorted entries in blocks of ten, each with a request of its own; counted, not read
*   all keys of the table for every batch, from one Parquet column of integers; a bootstrap in every batch reads no less
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.decisions.figure import Figure, cpu_seconds
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.state.entries import Entries, Int32s, Ints, state_hashes
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.memory_store import MemoryStore
from lakeidx.key_index.state.run_files import RunFiles
from lakeidx.types import parse_type

_CHOSEN, _MOVES = "blocks, and keys where only they can tell", "the same, one key in a hundred moves"
_KEYS, _TEN, _ALL = "the keys of every row", "sorted entries in blocks of ten", "all keys of the table for every batch"
_REQUEST_SECONDS = 0.03
_ELSEWHERE = 9


class SlowStore(MemoryStore):
    """Takes as long as an object store for each request."""

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""
        time.sleep(_REQUEST_SECONDS)
        return super().get_range(path, offset, length)

    def size(self, state: KeyState) -> int:
        """Return the bytes of a state."""
        named = state.manifest(1, "t").files
        return sum(f.size for f in self.list("state") if f.name in named)


def entries_of(keys: Ints, bucket: Int32s) -> Entries:
    """Return integer keys of one partition, as a state keeps them."""
    rows = RowBytes(keys.astype("<i8").view(np.uint8), np.arange(len(keys) + 1, dtype=np.int64) * 8)
    hashes = hash_columns([pa.array(keys)], [parse_type("BIGINT NOT NULL")])
    return Entries(
        state_hashes(hashes, rows), rows, np.zeros(len(keys), np.int32), bucket, np.ones(len(keys), np.uint32)
    )


def measure(rows: int, rounds: int, folder: Path) -> list[Figure]:
    """Load, and look up a hundredth of the keys and a ten-thousandth."""
    rng = np.random.default_rng(4)
    keys = rng.permutation(np.arange(rows, dtype=np.int64) * 3)
    bucket = rng.integers(0, 14, rows).astype(np.int32)
    store = SlowStore()
    _load(SlowStore(), keys[:100], bucket[:100])
    begun = time.process_time()
    state = _load(store, keys, bucket)
    loaded = time.process_time() - begun
    out = [
        Figure(4, _CHOSEN, True, f"load {rows:,} keys", round(loaded, 2), "CPU s"),
        Figure(4, _CHOSEN, True, f"bytes of a key, {rows:,} keys", round(store.size(state) / rows, 1), "B"),
    ]
    file = folder / "keys.parquet"
    pq.write_table(pa.table({"key": keys, "bucket": bucket}), file)
    for size in (rows // 10_000, rows // 100):
        asked = np.concatenate(
            [rng.choice(keys, size * 9 // 10, replace=False), np.arange(size - size * 9 // 10) * 3 + 1]
        )
        rng.shuffle(asked)
        at = pc.index_in(pa.array(asked), pa.array(keys)).fill_null(-1).to_numpy()
        wanted = np.where(at >= 0, bucket[at], -1)
        for way, moves in ((_CHOSEN, 0), (_MOVES, size // 100), (_KEYS, size)):
            out += _by_segments(store, state, asked, wanted, way, moves, rounds)
        what = f"{size:,} keys among {rows:,}"
        blocks = len(np.unique(rng.choice(rows, size, replace=False) // 10))
        out.append(Figure(4, _TEN, False, f"requests for {what}", blocks, ""))
        seconds, found = cpu_seconds(partial(_by_table, file, asked), rounds)
        _check(_ALL, found, wanted)
        out.append(Figure(4, _ALL, False, f"processor for {what}", round(seconds, 3), "CPU s"))
    return out


def _load(store: MemoryStore, keys: Ints, bucket: Int32s) -> KeyState:
    state = KeyState.empty(RunFiles(store, "state"), table_id="t", scope="s", is_global=True, expected_rows=len(keys))
    state.start_load()
    for start in range(0, len(keys), 5_000_000):
        part = slice(start, start + 5_000_000)
        state.write(entries_of(keys[part], bucket[part]))
    state.finish_load()
    return state


def _by_segments(
    store: SlowStore, state: KeyState, asked: Ints, wanted: Int32s, way: str, moves: int, rounds: int
) -> list[Figure]:
    """Measure each time from a state that has read nothing; `moves` rows are of another partition than their key."""
    entries = entries_of(asked, np.zeros(len(asked), np.int32))
    own = np.where(np.arange(len(asked)) < moves, _ELSEWHERE, 0).astype(np.int32)
    files = [RunFiles(store, "state")]

    def work() -> Int32s:
        files[0] = RunFiles(store, "state")
        fresh = KeyState(files[0], state.manifest(1, "t"), is_global=True)
        return fresh.lookup(entries.hashes, entries.keys, own)[1]

    seconds, found = cpu_seconds(work, rounds)
    begun = time.perf_counter()
    work()
    waited = time.perf_counter() - begun
    _check(way, found, wanted)
    what = f"{len(asked):,} keys among {state.rows:,}"
    chosen = way == _CHOSEN
    return [
        Figure(
            4, way, chosen, f"share of the state read for {what}", round(files[0].bytes_read / store.size(state), 3), ""
        ),
        Figure(4, way, chosen, f"requests for {what}", files[0].requests, ""),
        Figure(4, way, chosen, f"processor for {what}", round(seconds, 3), "CPU s"),
        Figure(4, way, chosen, f"time at 30 ms a request for {what}", round(waited, 2), "s"),
    ]


def _check(way: str, found: Int32s, wanted: Int32s) -> None:
    if not np.array_equal(found, wanted):
        sys.exit(f"{way}: wrong locations")


def _by_table(file: Path, asked: Ints) -> Int32s:
    table = pq.read_table(file)
    at = pc.index_in(pa.array(asked), table.column("key").combine_chunks()).fill_null(-1).to_numpy()
    found: Int32s = np.where(at >= 0, table.column("bucket").to_numpy()[at], -1)
    return found
