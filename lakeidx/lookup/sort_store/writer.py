"""Writer of the sort store: entries in key order into Paimon's SST."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCompressor
from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import compare_memory, copy_bytes, load_i64, store_i64, store_u8, store_u32
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import store_varint, varint_size
from lakeidx.errors import InvalidInputError
from lakeidx.format.lookup.sst import (
    TRAILER_SIZE,
    BlockHandle,
    Footer,
    encode_body,
    encode_footer,
    encode_index_value,
    stored_block,
)
from lakeidx.lookup.bloom import BloomShape, LookupBloom
from lakeidx.lookup.common import EntryWriter
from lakeidx.lookup.keys.order import KeyOrder, compare_keys
from lakeidx.lookup.packed import addresses_of
from lakeidx.lookup.scratch_file import ScratchFile
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, StoreType

# State of the block being filled: int64 each.
SIZE, COUNT, ALIGNED, ENTRY_SIZE, STOP, NEEDED = range(6)
_STATE_SLOTS = 6
# Why `_append_entries` came back.
INPUT_USED_UP, BLOCK_FULL, BODY_TOO_SMALL, ENTRY_TOO_LARGE = range(4)
_MAX_BODY = 2147483647
_TAIL = 5


@kernel
def _append_entries(
    state: Any,
    body: Any,
    body_capacity: Any,
    starts: Any,
    keys: Any,
    key_offsets: Any,
    values: Any,
    value_offsets: Any,
    i: Any,
    n: Any,
    block_size: Any,
) -> Any:
    """Append entries i, i+1, ... to the open block until it is full, the input ends or memory is short.

    state    address of int64[6]; zeros with ALIGNED 1 for a new block
    body     address of the block's bytes, `body_capacity` of them
    starts   address of int64[body_capacity / 2 + 1], start of each entry
    returns  number of the first entry that was not appended; state[STOP] says why it stopped
    """
    size, count = load_i64(state), load_i64(state + 8)
    aligned, entry_size = load_i64(state + 16), load_i64(state + 24)
    stop = INPUT_USED_UP
    while i < n:
        key, key_end = load_i64(key_offsets + 8 * i), load_i64(key_offsets + 8 * i + 8)
        value, value_end = load_i64(value_offsets + 8 * i), load_i64(value_offsets + 8 * i + 8)
        key_size, value_size = key_end - key, value_end - value
        now = varint_size(key_size) + key_size + varint_size(value_size) + value_size
        needed = size + now + 4 * (count + 1) + _TAIL
        if needed > body_capacity:
            stop = BODY_TOO_SMALL if needed <= _MAX_BODY else ENTRY_TOO_LARGE
            store_i64(state + 8 * NEEDED, needed)
            break
        at = store_varint(body + size, key_size)
        copy_bytes(at, keys + key, key_size)
        at = store_varint(at + key_size, value_size)
        copy_bytes(at, values + value, value_size)
        store_i64(starts + 8 * count, size)
        size += now
        count += 1
        if entry_size == 0:
            entry_size = now
        elif entry_size != now:
            aligned = 0
        i += 1
        if size + _TAIL + (0 if aligned else 4 * count) > block_size:
            stop = BLOCK_FULL
            break
    store_i64(state, size)
    store_i64(state + 8, count)
    store_i64(state + 16, aligned)
    store_i64(state + 24, entry_size)
    store_i64(state + 8 * STOP, stop)
    return i


@kernel
def _close_body(state: Any, body: Any, starts: Any) -> Any:
    """Append the tail of the block and make the state that of a new one.

    returns  bytes of the body
    """
    size, count = load_i64(state), load_i64(state + 8)
    if load_i64(state + 16):
        store_u32(body + size, load_i64(state + 24))
        store_u8(body + size + 4, 0)
    else:
        for i in range(count):
            store_u32(body + size, load_i64(starts + 8 * i))
            size += 4
        store_u32(body + size, count)
        store_u8(body + size + 4, 1)
    for slot in range(_STATE_SLOTS):
        store_i64(state + 8 * slot, 0)
    store_i64(state + 16, 1)
    return size + _TAIL


@kernel
def _first_disorder(keys: Any, offsets: Any, n: Any, before: Any, before_size: Any, codes: Any, fields: Any) -> Any:
    """Find the first key that is not greater than the one before it, or n.

    before   address of the key that precedes keys[0]; `before_size` -1 for none
    """
    for i in range(n):
        start, end = load_i64(offsets + 8 * i), load_i64(offsets + 8 * i + 8)
        key, size = keys + start, end - start
        if before_size >= 0:
            if fields == 0:
                order = compare_memory(before, before_size, key, size)
            else:
                order = compare_keys(before, before_size, key, size, codes, fields)
            if order >= 0:
                return i
        before, before_size = key, size
    return n


class SortLookupStoreWriter(EntryWriter):
    """Writes one SST, byte for byte as Java does for the same input (zstd and lz4: as far as the library versions agree).

    path              the file; it appears at `finish`
    order             form and order of the keys
    expected_entries  sizes the filter, as Java does from the row count; 0: no filter
    errors            InvalidInputError for a key that is not greater than the one before it, of another form, or an entry
                      of 2 GiB; UnavailableError for a full disk. After an error the writer is aborted.
    cost              memory of one block, the filter, and the last key of each block
    source            org.apache.paimon.lookup.sort.SortLookupStoreWriter, release 1.4.2
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        options: LookupStoreOptions,
        order: KeyOrder,
        expected_entries: int,
    ) -> None:
        self._options = options
        super().__init__(order)
        self._compressor = BlockCompressor(options.compression, options.zstd_level)
        self._filter: LookupBloom | None = None
        if options.bloom_fpp is not None and expected_entries:
            self._filter = LookupBloom(BloomShape.for_rate(expected_entries, options.bloom_fpp))
        self._state = np.zeros(_STATE_SLOTS, np.int64)
        self._state[ALIGNED] = 1
        self._body, self._starts = np.empty(0, np.uint8), np.empty(0, np.int64)
        self._reserve(options.block_size + 4096)
        self._index: list[tuple[bytes, bytes]] = []
        self._last_key: bytes | None = None
        self._file = ScratchFile(path)

    def finish(self) -> LookupFile:
        """Write filter, index block and footer, and move the file to its name.

        returns  `checksum` covers everything after the data blocks
        """
        try:
            if self._state[COUNT]:
                self._close_block()
            tail, footer = self._tail()
            tail.append(encode_footer(footer))
            self._file.write(*tail)
            self._file.commit()
        except BaseException:
            self.abort()
            raise
        return LookupFile(
            store_type=StoreType.SORT,
            path=str(self._file.path),
            size=self._file.size,
            entries=self._entries,
            checksum=crc32(*tail),
        )

    def abort(self) -> None:
        """Remove the unfinished file; nothing after `finish`."""
        self._file.discard()

    def write(self, keys: RowBytes, values: RowBytes) -> None:
        """Add n entries; see `lakeidx.lookup.store.LookupStoreWriter`."""
        try:
            keys, values = self._checked(keys, values)
            if len(keys) == 0:
                return
            self._check_disorder(keys)
            if self._filter is not None:
                self._filter.add(keys)
            self._append(keys, values)
            self._last_key = keys[len(keys) - 1]
            self._entries += len(keys)
        except BaseException:
            self.abort()
            raise

    def _check_disorder(self, keys: RowBytes) -> None:
        before = np.frombuffer(self._last_key or b"", np.uint8)
        size = -1 if self._last_key is None else len(before)
        n = len(keys)
        at = int(_first_disorder(*addresses_of(keys), n, before.ctypes.data, size, *self._order.for_kernels))
        if at < n:
            last = self._last_key if at == 0 else keys[at - 1]
            assert last is not None
            relation = "equals" if self._order.compare(last, keys[at]) == 0 else "comes before"
            raise InvalidInputError(
                f"entry {self._entries + at} is out of order: its key {keys[at].hex()} {relation} the key {last.hex()} before it "
                f"(order: {self._order})",
                path=str(self._file.path),
            )

    def _append(self, keys: RowBytes, values: RowBytes) -> None:
        sources = (*addresses_of(keys), *addresses_of(values))
        state = self._state.ctypes.data
        i, n = 0, len(keys)
        while i < n:
            i = _append_entries(
                state, self._body.ctypes.data, len(self._body), self._starts.ctypes.data, *sources, i, n,
                self._options.block_size,
            )  # fmt: skip
            stop = self._state[STOP]
            if stop == BLOCK_FULL:
                self._last_key = keys[i - 1]
                self._close_block()
            elif stop == BODY_TOO_SMALL:
                self._reserve(int(self._state[NEEDED]))
            elif stop == ENTRY_TOO_LARGE:
                raise InvalidInputError(f"entry {self._entries + i} does not fit a block of at most 2 GiB")

    def _reserve(self, size: int) -> None:
        """Make room for a block body of `size` bytes, keeping the entries already in it."""
        body, starts = np.empty(size, np.uint8), np.empty(size // 2 + 1, np.int64)
        used, count = int(self._state[SIZE]), int(self._state[COUNT])
        if used:
            body[:used] = self._body[:used]
            starts[:count] = self._starts[:count]
        self._body, self._starts = body, starts

    def _close_block(self) -> None:
        size = int(_close_body(self._state.ctypes.data, self._body.ctypes.data, self._starts.ctypes.data))
        assert self._last_key is not None
        offset = self._file.size
        self._file.write(*stored_block(self._body[:size].data, self._compressor))
        handle = BlockHandle(offset, self._file.size - offset - TRAILER_SIZE)
        self._index.append((self._last_key, encode_index_value(handle)))

    def _tail(self) -> tuple[list[bytes | memoryview], Footer]:
        """Build the parts between the data blocks and the footer."""
        bloom, entries = None, 0
        parts: list[bytes | memoryview] = []
        offset = self._file.size
        if self._filter is not None and self._filter.shape.byte_size:
            bloom, entries = BlockHandle(offset, self._filter.shape.byte_size), self._filter.shape.entries
            parts.append(self._filter.bits.data)
            offset += bloom.size
        stored, trailer = stored_block(encode_body(self._index), self._compressor)
        parts += [stored, trailer]
        return parts, Footer(BlockHandle(offset, len(stored)), bloom, entries)
