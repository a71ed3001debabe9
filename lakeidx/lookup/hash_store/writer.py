"""Writer of the hash store."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec, BlockCompressor
from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import compare_memory, copy_bytes, load_i64, load_u8, prefetch
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import store_varint, varint_size
from lakeidx.errors import InvalidInputError
from lakeidx.format.lookup.hash_store import (
    CONTEXT_SUFFIX,
    HashContext,
    LengthSection,
    context_checksum,
    encode_context,
    slots_for,
)
from lakeidx.lookup.bloom import BloomShape, bloom_add, hash_at
from lakeidx.lookup.common import EntryWriter
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import addresses_of
from lakeidx.lookup.scratch_file import ScratchFile, os_errors
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, StoreType

_AHEAD = 12


@kernel
def _hash_slots(keys: Any, offsets: Any, n: Any, hashes: Any) -> None:
    """Hash of each key into hashes uint32[n]."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        hashes[i] = hash_at(keys + start, load_i64(offsets + 8 * i + 8) - start)


@kernel
def _lay_out_values(
    key_offsets: Any, values: Any, value_offsets: Any, n: Any, counts: Any, data_sizes: Any, widths: Any, last: Any,
    places: Any,
) -> None:  # fmt: skip
    """Assign each value its offset in the data section of its key's length, in insertion order.

    counts, data_sizes, widths  int64[longest key + 1]: keys, bytes of the data section, longest varint of an offset
    last                        int64[longest key + 1]: entry whose value was put last for the length; -1 at first
    places                      int64[n]: offset of the value; negated when it is that of the value before
    """
    for i in range(n):
        length = load_i64(key_offsets + 8 * i + 8) - load_i64(key_offsets + 8 * i)
        start = load_i64(value_offsets + 8 * i)
        size = load_i64(value_offsets + 8 * i + 8) - start
        before = last[length]
        last[length] = i
        counts[length] += 1
        if before >= 0:
            old = load_i64(value_offsets + 8 * before)
            old_size = load_i64(value_offsets + 8 * before + 8) - old
            if old_size == size and compare_memory(values + old, old_size, values + start, size) == 0:
                places[i] = -abs(places[before])
                continue
        else:
            data_sizes[length] = 1
        places[i] = data_sizes[length]
        widths[length] = max(widths[length], varint_size(data_sizes[length]))
        data_sizes[length] += varint_size(size) + size


@kernel
def _fill_image(
    image: Any, keys: Any, key_offsets: Any, values: Any, value_offsets: Any, n: Any, hashes: Any, places: Any,
    slots: Any, slot_sizes: Any, index_offsets: Any, data_offsets: Any, filter_bits: Any, probes: Any,
) -> Any:  # fmt: skip
    """Write filter, slots and values into a zeroed image.

    slots, slot_sizes, index_offsets, data_offsets   int64[longest key + 1]
    filter_bits   bits of the filter at the start of the image, 0 without one
    returns       number of the first entry whose key was put before, or n
    """
    for i in range(n):
        # Slots are hit at random: have the coming ones on their way.
        j = min(i + _AHEAD, n - 1)
        far = load_i64(key_offsets + 8 * j + 8) - load_i64(key_offsets + 8 * j)
        prefetch(
            image + index_offsets[far] + np.int64(hashes[j] & np.uint32(0x7FFFFFFF)) % slots[far] * slot_sizes[far]
        )
        key = keys + load_i64(key_offsets + 8 * i)
        length = keys + load_i64(key_offsets + 8 * i + 8) - key
        table, slot_size, count = image + index_offsets[length], slot_sizes[length], slots[length]
        slot = np.int64(hashes[i] & np.uint32(0x7FFFFFFF)) % count
        while load_u8(table + slot * slot_size + length):
            if compare_memory(table + slot * slot_size, length, key, length) == 0:
                return i
            slot = slot + 1 if slot + 1 < count else np.int64(0)
        at = table + slot * slot_size
        copy_bytes(at, key, length)
        store_varint(at + length, abs(places[i]))
        if places[i] > 0:
            start = load_i64(value_offsets + 8 * i)
            size = load_i64(value_offsets + 8 * i + 8) - start
            copy_bytes(store_varint(image + data_offsets[length] + places[i], size), values + start, size)
        if filter_bits:
            bloom_add(hashes[i], image, filter_bits, probes)
    return n


_PAYLOAD_SIZE = struct.Struct(">i")
_MAX_TABLES = 2147483647


class HashLookupStoreWriter(EntryWriter):
    """Writes one hash lookup file and its context file.

    The data is byte for byte what Java writes for the same puts in the same order (zstd and lz4: as far as the library
    versions agree).

    path              the data file; both files appear at `finish`, the context last
    order             form of the keys (a hash store has no order)
    expected_entries  sizes the filter; 0: no filter
    errors            InvalidInputError for a key of another form or a page size that is no power of two, and at `finish` for
                      a key put twice (named by the later entry) or slot tables above 2 GiB; UnavailableError for a full disk
    cost              the entries and the image are in memory until `finish`
    source            org.apache.paimon.lookup.hash.HashLookupStoreWriter, release 0.9.0
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        options: LookupStoreOptions,
        order: KeyOrder,
        expected_entries: int,
    ) -> None:
        if options.block_size & (options.block_size - 1):
            raise InvalidInputError(f"a hash store's page size is a power of two, not {options.block_size}")
        self._path = Path(path)
        self._options = options
        super().__init__(order)
        self._expected = expected_entries
        self._compressor = BlockCompressor(options.compression, options.zstd_level)
        self._keys: list[RowBytes] = []
        self._values: list[RowBytes] = []
        self._done = False

    def finish(self) -> LookupFile:
        """Build the image and write both files.

        returns  `checksum` is that of the context file, which covers the data file
        """
        if self._done:
            raise InvalidInputError("the writer is finished", path=str(self._path))
        keys, values = RowBytes.concat(self._keys), RowBytes.concat(self._values)
        self.abort()
        sections, shape, image = self._image(keys, values)
        context = self._write_data(image, sections, shape)
        return LookupFile(
            store_type=StoreType.HASH,
            path=str(self._path),
            size=context.file_size,
            entries=len(keys),
            checksum=self._write_context(encode_context(context)),
            side_files=(str(context_path(self._path)),),
        )

    def abort(self) -> None:
        """Drop the entries; nothing was written yet."""
        self._keys, self._values, self._done = [], [], True

    def write(self, keys: RowBytes, values: RowBytes) -> None:
        """Add n entries; see `lakeidx.lookup.store.LookupStoreWriter`."""
        if self._done:
            raise InvalidInputError("the writer is finished", path=str(self._path))
        keys, values = self._checked(keys, values)
        self._entries += len(keys)
        self._keys.append(keys)
        self._values.append(values)

    def _image(
        self, keys: RowBytes, values: RowBytes
    ) -> tuple[tuple[LengthSection, ...], BloomShape | None, npt.NDArray[np.uint8]]:
        n = len(keys)
        longest = int(keys.lengths.max()) if n else -1
        counts, data_sizes, widths = (np.zeros(longest + 1, np.int64) for _ in range(3))
        last, places = np.full(longest + 1, -1, np.int64), np.empty(n, np.int64)
        key_spans, value_spans = addresses_of(keys), addresses_of(values)
        _lay_out_values(key_spans[1], *value_spans, n, counts, data_sizes, widths, last, places)

        shape = None
        if self._options.bloom_fpp is not None and self._expected:
            shape = BloomShape.for_rate(self._expected, self._options.bloom_fpp)
            # A rate near 1 gives a filter of no bytes: no filter.
            shape = shape if shape.byte_size else None
        slots, slot_sizes, index_offsets, data_offsets = (np.zeros(longest + 1, np.int64) for _ in range(4))
        place = shape.byte_size if shape else 0
        lengths = np.flatnonzero(counts).tolist()
        for length in lengths:
            slots[length] = slots_for(int(counts[length]), self._options.hash_load_factor)
            slot_sizes[length] = length + widths[length]
            index_offsets[length] = place
            place += int(slots[length] * slot_sizes[length])
        if place > _MAX_TABLES:
            raise InvalidInputError(f"slot tables of {place} bytes; the format ends at 2 GiB: use the sort store")
        for length in lengths:
            data_offsets[length] = place
            place += int(data_sizes[length])

        image = np.zeros(place, np.uint8)
        hashes = np.empty(n, np.uint32)
        _hash_slots(*key_spans, n, hashes)
        at = _fill_image(
            image.ctypes.data, *key_spans, *value_spans, n, hashes, places, slots, slot_sizes, index_offsets,
            data_offsets, shape.bits if shape else 0, shape.probes if shape else 0,
        )  # fmt: skip
        if at < n:
            raise InvalidInputError(f"entry {at} has a duplicate key: {keys[at].hex()}", path=str(self._path))
        table = zip(
            lengths, counts[lengths].tolist(), slots[lengths].tolist(), slot_sizes[lengths].tolist(),
            index_offsets[lengths].tolist(), data_offsets[lengths].tolist(), strict=True,
        )  # fmt: skip
        return tuple(LengthSection(*row) for row in table), shape, image

    def _write_data(
        self, image: npt.NDArray[np.uint8], sections: tuple[LengthSection, ...], shape: BloomShape | None
    ) -> HashContext:
        page_size = self._options.block_size
        file = ScratchFile(self._path)
        sizes, checksums = [], []
        try:
            if self._options.compression is BlockCodec.NONE:
                file.write(image.data)
            for start in range(0, len(image), page_size):
                page = image[start : start + page_size].data
                if self._options.compression is not BlockCodec.NONE:
                    payload = self._compressor.compress(page)
                    page = memoryview(_PAYLOAD_SIZE.pack(len(payload)) + payload)
                    file.write(page)
                sizes.append(len(page))
                checksums.append(crc32(page))
            # A context left from before must not meet the new data.
            with os_errors(self._path):
                context_path(self._path).unlink(missing_ok=True)
            file.commit()
        except BaseException:
            file.discard()
            raise
        return HashContext(
            codec=self._options.compression,
            page_size=page_size,
            image_size=len(image),
            bloom_entries=shape.entries if shape else 0,
            bloom_size=shape.byte_size if shape else 0,
            sections=sections,
            page_sizes=np.array(sizes, np.int64),
            page_checksums=np.array(checksums, np.uint32),
        )

    def _write_context(self, data: bytes) -> int:
        try:
            file = ScratchFile(context_path(self._path))
            file.write(data)
            file.commit()
        except BaseException:
            # Data without a context is of no use.
            self._path.unlink(missing_ok=True)
            raise
        return context_checksum(data)


def context_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a data file's context."""
    path = Path(path)
    return path.with_name(path.name + CONTEXT_SUFFIX)
