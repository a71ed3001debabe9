"""The key state: where every key of a table lives, in an embedded key-value store.

The store holds pages (`state_pages`), not single keys: a batch looks its keys up page by page with whole-column
kernels, and what is written goes into small new runs that are merged now and then. Stored under

========================================  =============================================================================
key                                       value
========================================  =============================================================================
``P`` u8 bits, u32 page, u32 generation   a run of the page (all big endian; the higher generation is the newer run)
``M``                                     `StateMeta` as JSON
========================================  =============================================================================

A state is *clean* at one snapshot of one table. While it is being changed it says so, and one that is found in the
middle of a change is not used.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np

from lakeidx.codec.jit import frozen
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.state.pages import (
    GONE,
    Entries,
    Hashes,
    Int32s,
    Ints,
    decode_block,
    encode_block,
    hash_rows,
    merge_runs,
    page_of,
    probe_block,
)

VERSION = 1
_META_KEY = b"M"
_MIN_BITS, _MAX_BITS = 4, 20
_ROWS_PER_PAGE = 2048
_GROW_ABOVE = 4 * _ROWS_PER_PAGE
_MAX_RUNS = 4
_BATCH_BYTES = 16 << 20
# From a quarter of the pages on one pass over all is quicker than a seek for each.
_PASS_SHARE_BITS = 2


class StateStore(Protocol):
    """An ordered key-value store."""

    def get(self, key: bytes) -> bytes | None:
        """Read the value of a key."""
        ...

    def items(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries with start <= key < stop, ascending."""
        ...

    def keys(self, start: bytes, stop: bytes) -> Iterator[bytes]:
        """Iterate over the keys alone."""
        ...

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        """Write all entries atomically."""
        ...


@dataclass(slots=True)
class StateMeta:
    """What a state is of.

    table_id    see `TableView.table_id`
    scope       what else decides about its content (global or not, which share of the keys, which partitions)
    snapshot_id, token   snapshot it is at
    files       data files whose keys are in it: name -> [partition number, bucket]
    partitions  manifest bytes (hex) by partition number
    bits        log2 of the number of pages
    generation  of the newest run
    rows        entries written, an upper bound of the keys in it
    clean       False while it is being changed
    """

    table_id: str
    scope: str
    snapshot_id: int | None = None
    token: str | None = None
    files: dict[str, list[int]] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    bits: int = _MIN_BITS
    generation: int = 0
    rows: int = 0
    clean: bool = True
    version: int = VERSION


class KeyState:
    """A key state over a store; make one with `create`, or `load` what a store holds."""

    def __init__(self, store: StateStore, meta: StateMeta) -> None:
        self._store = store
        self.meta = meta
        self._runs = np.zeros(1 << meta.bits, np.uint16)
        # While a sweep is to come runs stay apart: which run an entry is in tells whether it was confirmed.
        self._hold_runs = False

    @classmethod
    def create(cls, store: StateStore, meta: StateMeta, *, expected_rows: int) -> KeyState:
        """Make an empty state; the store must be empty.

        expected_rows   sizes the pages
        """
        pages = max(1, expected_rows // _ROWS_PER_PAGE)
        meta.bits = min(_MAX_BITS, max(_MIN_BITS, pages.bit_length()))
        state = cls(store, meta)
        state.begin()
        return state

    @classmethod
    def load(cls, store: StateStore) -> KeyState | None:
        """Open the state a store holds; None when there is none, of another version, or one left in the middle of a change."""
        raw = store.get(_META_KEY)
        if raw is None:
            return None
        try:
            meta = StateMeta(**json.loads(raw))
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"the key state's description cannot be read: {error}") from error
        if meta.version != VERSION or not meta.clean:
            return None
        state = cls(store, meta)
        for key in store.keys(_page_key(meta.bits, 0, 0), _page_key(meta.bits + 1, 0, 0)):
            state._runs[_page_in(key)] += 1
        return state

    # -- reading -------------------------------------------------------------------------------------------------------

    def lookup(self, keys: RowBytes, *, expire_before: int = 0) -> tuple[Int32s, Int32s]:
        """Look up the locations of keys.

        keys           n keys
        expire_before  epoch seconds: entries written before count as gone
        returns        int32[n] partition numbers (GONE = nowhere), int32[n] buckets
        """
        n = len(keys)
        partition, bucket = np.full(n, GONE, np.int32), np.full(n, -1, np.int32)
        hashes = frozen(hash_rows(keys))
        keys = RowBytes(frozen(keys.data), frozen(keys.offsets))
        order = frozen(np.argsort(hashes, kind="stable"))
        pages, edges = self._pages_of(hashes[order])
        rows_of = {p: order[a:b] for p, a, b in zip(pages.tolist(), edges.tolist(), edges.tolist()[1:], strict=False)}
        for page, block in self._runs_of(rows_of):
            probe_block(block, hashes, keys, rows_of[page], partition, bucket, expire_before=expire_before)
        bucket[partition == GONE] = -1
        return partition, bucket

    def bucket_counts(self, *, expire_before: int = 0) -> dict[tuple[int, int], int]:
        """Return the keys per (partition number, bucket), by one pass over the state."""
        counts: dict[tuple[int, int], int] = {}
        for page in range(1 << self.meta.bits):
            runs = self._blocks(page)
            if not runs:
                continue
            merged = merge_runs(runs, expire_before=expire_before, drop_gone=True)
            places = merged.partition.astype(np.int64) << 32 | merged.bucket.astype(np.int64)
            for place, count in zip(*(a.tolist() for a in np.unique(places, return_counts=True)), strict=True):
                at = (place >> 32, place & 0xFFFFFFFF)
                counts[at] = counts.get(at, 0) + count
        return counts

    def partition_number(self, partition: bytes) -> int:
        """Return the number of a partition, a new one if need be."""
        text = partition.hex()
        if text not in self.meta.partitions:
            self.meta.partitions.append(text)
        return self.meta.partitions.index(text)

    # -- writing -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Mark the state as being changed."""
        self.meta.clean = False
        self._put_meta()

    def commit(self) -> None:
        """Mark the change as complete; `meta` describes the new state."""
        self.meta.clean = True
        self._put_meta()

    def write(self, keys: RowBytes, partition: Int32s, bucket: Int32s, *, now: int, expire_before: int = 0) -> None:
        """Set the locations of keys, between `begin` and `commit`.

        keys        n keys; of equal ones the last counts
        partition   int32[n], GONE takes the key away
        now         epoch seconds
        """
        n = len(keys)
        if not n:
            return
        hashes = hash_rows(keys)
        order = np.argsort(hashes, kind="stable")
        entries = Entries(hashes, keys, partition, bucket, np.full(n, now, np.uint32)).take(order)
        self.meta.generation += 1
        self.meta.rows += n
        pages, edges = self._pages_of(entries.hashes)
        puts: list[tuple[bytes, bytes]] = []
        full: list[int] = []
        size = 0
        for page, start, stop in zip(pages.tolist(), edges.tolist(), edges.tolist()[1:], strict=False):
            block = encode_block(entries.slice(start, stop))
            puts.append((_page_key(self.meta.bits, page, self.meta.generation), block))
            size += len(block)
            self._runs[page] += 1
            if self._runs[page] > _MAX_RUNS:
                full.append(page)
            if size > _BATCH_BYTES:
                self._store.write(puts)
                puts, size = [], 0
        self._store.write(puts)
        if self._hold_runs:
            return
        for page in full:
            self._merge_page(page, expire_before)
        if self.meta.rows > _GROW_ABOVE << self.meta.bits and self.meta.bits < _MAX_BITS:
            self._grow(expire_before)

    def start_sweep(self) -> int:
        """Keep runs apart from now on; returns the generation that `sweep` counts from."""
        self._hold_runs = True
        return self.meta.generation

    def sweep(self, places: Collection[tuple[int, int]], since: int, *, expire_before: int = 0) -> None:
        """Remove keys at some locations that were not written again since `start_sweep` returned `since`.

        places   (partition number, bucket)
        cost     one pass over the state, and its pages rewritten
        """
        bits = self.meta.bits
        wanted = np.array(sorted(p << 32 | b for p, b in places), np.int64)
        rows = 0
        for page in range(1 << bits):
            if not self._runs[page]:
                continue
            items = list(self._store.items(_page_key(bits, page, 0), _page_key(bits, page + 1, 0)))
            runs = []
            for key, value in items:
                run = decode_block(value)
                if _generation_in(key) <= since:
                    stale = np.isin(run.partition.astype(np.int64) << 32 | run.bucket.astype(np.int64), wanted)
                    run = replace(run, partition=np.where(stale, GONE, run.partition).astype(np.int32))
                runs.append(run)
            merged = merge_runs(runs, expire_before=expire_before, drop_gone=True)
            puts = [(items[-1][0], encode_block(merged))] if len(merged) else []
            self._store.write(puts, [k for k, _ in (items[:-1] if puts else items)])
            self._runs[page] = len(puts)
            rows += len(merged)
        self.meta.rows, self._hold_runs = rows, False

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pages_of(self, ascending: Hashes) -> tuple[Ints, Ints]:
        """Find the pages of some sorted hashes, and where each begins (one edge more than pages)."""
        pages, starts = np.unique(page_of(ascending, self.meta.bits), return_index=True)
        return pages.astype(np.int64), np.append(starts, len(ascending)).astype(np.int64)

    def _runs_of(self, pages: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Read runs of some pages, older before newer; by one pass over the store when most of it is requested."""
        bits = self.meta.bits
        if len(pages) << _PASS_SHARE_BITS >= 1 << bits:
            for key, block in self._store.items(_page_key(bits, 0, 0), _page_key(bits + 1, 0, 0)):
                page = _page_in(key)
                if page in pages:
                    yield page, block
            return
        for page in pages:
            if self._runs[page]:
                for _, block in self._store.items(_page_key(bits, page, 0), _page_key(bits, page + 1, 0)):
                    yield page, block

    def _blocks(self, page: int) -> list[Entries]:
        if not self._runs[page]:
            return []
        bits = self.meta.bits
        found = self._store.items(_page_key(bits, page, 0), _page_key(bits, page + 1, 0))
        return [decode_block(value) for _, value in found]

    def _merge_page(self, page: int, expire_before: int) -> None:
        bits = self.meta.bits
        items = list(self._store.items(_page_key(bits, page, 0), _page_key(bits, page + 1, 0)))
        merged = merge_runs([decode_block(v) for _, v in items], expire_before=expire_before, drop_gone=True)
        self.meta.rows -= sum(_block_rows(v) for _, v in items) - len(merged)
        # The merged run takes the place of the newest one.
        puts = [(items[-1][0], encode_block(merged))] if len(merged) else []
        self._store.write(puts, [k for k, _ in (items[:-1] if puts else items)])
        self._runs[page] = len(puts)

    def _grow(self, expire_before: int) -> None:
        """Double the number of pages: split each into two neighbours at the next bit of the hash."""
        bits = self.meta.bits
        runs = np.zeros(2 << bits, np.uint16)
        rows = 0
        for page in range(1 << bits):
            items = list(self._store.items(_page_key(bits, page, 0), _page_key(bits, page + 1, 0)))
            if not items:
                continue
            merged = merge_runs([decode_block(v) for _, v in items], expire_before=expire_before, drop_gone=True)
            cut = int(np.searchsorted(page_of(merged.hashes, bits + 1), 2 * page + 1))
            puts = []
            for half, (start, stop) in enumerate(((0, cut), (cut, len(merged)))):
                if stop > start:
                    key = _page_key(bits + 1, 2 * page + half, self.meta.generation)
                    puts.append((key, encode_block(merged.slice(start, stop))))
                    runs[2 * page + half] = 1
            rows += len(merged)
            self._store.write(puts, [k for k, _ in items])
        self.meta.bits, self.meta.rows, self._runs = bits + 1, rows, runs
        self._put_meta()

    def _put_meta(self) -> None:
        self._store.write([(_META_KEY, json.dumps(asdict(self.meta)).encode("utf-8"))])


def _page_key(bits: int, page: int, generation: int) -> bytes:
    return b"P" + (bits << 64 | page << 32 | generation).to_bytes(9, "big")


def _page_in(key: bytes) -> int:
    return int.from_bytes(key[2:6], "big")


def _generation_in(key: bytes) -> int:
    return int.from_bytes(key[6:10], "big")


def _block_rows(block: bytes) -> int:
    return int.from_bytes(block[4:8], "little")
