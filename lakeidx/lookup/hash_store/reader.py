"""Reader of the hash store: batch lookups in a hash lookup file.

An open hash lookup file: mapped, described by its context, its pages checked as they are first used.

Every byte of the data file is covered by the page checksums of the context, and the context by its own checksum (and, when it is
known from a listing, by `checksum`).
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32_ranges
from lakeidx.codec.containers.compress import BlockCodec, decompress_block
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.hash_store import (
    PAGE_HEADER_SIZE,
    HashContext,
    context_checksum,
    decode_context,
)
from lakeidx.lookup.block_cache import Block, BlockCache, BlockFile, LoadedBlocks, Pinned
from lakeidx.lookup.bloom import BloomShape, LookupBloom
from lakeidx.lookup.hash_store import read_kernels as kernels
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import addresses_of, contiguous
from lakeidx.lookup.scratch_file import map_file
from lakeidx.lookup.store import FoundValues

_PAYLOAD_SIZE = struct.Struct(">i")
_ONE_PAGE_SHIFT = 62


class HashLookupStoreReader(BlockFile):
    """Answers from one hash lookup file.

    order     form of the keys (a hash store has no order)
    checksum  `hash_store.context_checksum` of the context file, or None
    errors    NotFoundError; CorruptFileError naming the file and position
    source    org.apache.paimon.lookup.hash.HashLookupStoreReader, release 0.9.0
    """

    def __init__(self, path: str, *, order: KeyOrder, cache: BlockCache, checksum: int | None = None) -> None:
        self.path = path
        self.context = context = _read_context(context_path(path), checksum)
        self.order = order
        self.data = map_file(path, expected_size=context.file_size)
        self.positions = np.cumsum(context.page_sizes) - context.page_sizes
        self.shift = context.page_size.bit_length() - 1
        n = len(context.page_sizes)
        super().__init__(n, cache)
        self._filter_bits = self._read_range(0, context.bloom_size)
        self.filter = None
        if context.bloom_size:
            self.filter = LookupBloom(BloomShape(context.bloom_entries, context.bloom_size), self._filter_bits)
        self._by_length = self._length_tables()
        self._flat_page = np.array([self.data.ctypes.data], np.int64)
        self._paged = self._new_descriptor(self.addresses, self.shift)
        self._flat = self._new_descriptor(self._flat_page, _ONE_PAGE_SHIFT)
        self.scratch_size = max([s.slot_size for s in context.sections], default=0) + 16

    @property
    def is_flat(self) -> bool:
        """True when the mapped file is the image and all of it was checked."""
        return self.context.codec is BlockCodec.NONE and self.all_resident

    def descriptor(self) -> npt.NDArray[np.int64]:
        """Return what kernels read the file by, with the pages that are in memory at this moment (hold the interpreter lock)."""
        return self._flat if self.is_flat else self._paged

    def pinned_descriptor(self, pinned: Pinned) -> npt.NDArray[np.int64]:
        """Return the same over pages that stay while `pinned` is held."""
        if self.is_flat:
            return self._flat
        copy = self._paged.copy()
        copy[kernels.PAGES] = pinned.addresses.ctypes.data
        return copy

    def damage(self, place: int) -> CorruptFileError:
        """Make the error for contents that break the format at a place of the image."""
        page = place >> self.shift
        offset = place if self.context.codec is BlockCodec.NONE else int(self.positions[page])
        return CorruptFileError(
            f"slot or value at {place} of the image points outside its section", path=self.path, offset=offset
        )

    def load_blocks(self, numbers: npt.NDArray[np.int64]) -> LoadedBlocks:
        """Load the pages of the image."""
        starts, sizes = self.positions[numbers], self.context.page_sizes[numbers]
        view = self.data.data
        found = crc32_ranges(view, starts.tolist(), (starts + sizes).tolist())
        expected = self.context.page_checksums[numbers]
        if not np.array_equal(found, expected):
            bad = np.flatnonzero(found != expected)[0]
            raise CorruptFileError(
                f"page checksum is {found[bad]:08x}, expected {int(expected[bad]):08x}",
                path=self.path,
                offset=int(starts[bad]),
            )
        if self.context.codec is BlockCodec.NONE:
            return LoadedBlocks({}, self.data.ctypes.data + starts)
        copies = {
            number: self._decompressed(number, view[start : start + size], start)
            for number, start, size in zip(numbers.tolist(), starts.tolist(), sizes.tolist(), strict=True)
        }
        return LoadedBlocks(copies, np.array([page.ctypes.data for page in copies.values()], np.int64))

    def file_range(self, number: int) -> Block:
        """Return the stored form of a page."""
        start = int(self.positions[number])
        return self.data[start : start + int(self.context.page_sizes[number])]

    def block_bytes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return 0 when the file is the image."""
        if self.context.codec is BlockCodec.NONE:
            return np.zeros(len(numbers), np.int64)
        found: npt.NDArray[np.int64] = np.minimum(
            self.context.page_size, self.context.image_size - (numbers << self.shift)
        )
        return found

    def _decompressed(self, number: int, stored: memoryview, start: int) -> Block:
        size = len(stored)
        if size < PAGE_HEADER_SIZE or _PAYLOAD_SIZE.unpack_from(stored)[0] != size - PAGE_HEADER_SIZE:
            raise CorruptFileError(f"expected a page of {size - PAGE_HEADER_SIZE} bytes", path=self.path, offset=start)
        base = start + PAGE_HEADER_SIZE
        image_bytes = min(self.context.page_size, self.context.image_size - (number << self.shift))
        return decompress_block(self.context.codec, stored[PAGE_HEADER_SIZE:], image_bytes, path=self.path, base=base)

    def _read_range(self, place: int, size: int) -> npt.NDArray[np.uint8]:
        """Read the bytes of the image as one array of their own (a view when the file is the image)."""
        if not size:
            return np.zeros(0, np.uint8)
        first, last = place >> self.shift, (place + size - 1) >> self.shift
        pages = [self.block(page) for page in range(first, last + 1)]
        if self.context.codec is BlockCodec.NONE:
            return self.data[place : place + size]
        start = place - (first << self.shift)
        return np.concatenate(pages)[start : start + size].copy()

    def _length_tables(self) -> dict[int, npt.NDArray[np.int64]]:
        sections = self.context.sections
        longest = sections[-1].key_length if sections else -1
        slots, slot_sizes, index, data, ends = (np.zeros(longest + 1, np.int64) for _ in range(5))
        data_ends = [*(s.data_offset for s in sections[1:]), self.context.image_size]
        for s, end in zip(sections, data_ends, strict=bool(sections)):
            at = s.key_length
            slots[at], slot_sizes[at], index[at] = s.slots, s.slot_size, s.index_offset
            data[at], ends[at] = s.data_offset, end
        return {
            kernels.SLOTS: slots,
            kernels.SLOT_SIZES: slot_sizes,
            kernels.INDEX_OFFSETS: index,
            kernels.DATA_OFFSETS: data,
            kernels.DATA_ENDS: ends,
        }

    def _new_descriptor(self, pages: npt.NDArray[np.int64], shift: int) -> npt.NDArray[np.int64]:
        out = np.zeros(kernels.DESCRIPTOR_SLOTS, np.int64)
        if self.filter is not None:
            out[kernels.FILTER] = self.filter.bits.ctypes.data
            out[kernels.FILTER_BITS] = self.filter.shape.bits
            out[kernels.FILTER_PROBES] = self.filter.shape.probes
        out[kernels.PAGES], out[kernels.PAGE_SHIFT] = pages.ctypes.data, shift
        out[kernels.LENGTHS] = len(self._by_length[kernels.SLOTS])
        for slot, table in self._by_length.items():
            out[slot] = table.ctypes.data
        return out

    def lookup_many(self, keys: RowBytes) -> FoundValues:
        """Look up the values of n keys. With the whole image in memory, or a batch that needs all of it, in one pass; else page
        by page, so that each page is loaded as rarely as the cache's bound allows.
        """
        keys = contiguous(keys)
        self.order.check(keys)
        pages = len(self.positions)
        fits = self.context.image_size <= self.working_bytes or self.all_resident
        if self.all_in_memory() or (fits and len(keys) >= pages):
            pinned = self.pin(np.arange(pages))
            return self._in_one_pass(self.pinned_descriptor(pinned), keys)
        return self._in_rounds(keys)

    def _in_one_pass(self, descriptor: npt.NDArray[np.int64], keys: RowBytes) -> FoundValues:
        n = len(keys)
        found, offsets = np.empty(n, np.bool_), np.zeros(n + 1, np.int64)
        scratch = np.empty(self.scratch_size, np.uint8)
        # Room for n values of the mean size: only what is written takes memory.
        mean = self.context.image_size // max(self.context.entries, 1)
        out = np.empty(n * mean + 1024, np.uint8)
        i = 0
        while i < n:
            i, outcome, place = kernels.lookup_batch(
                descriptor.ctypes.data, *addresses_of(keys), i, n, found, out.ctypes.data, len(out), offsets,
                scratch.ctypes.data,
            )  # fmt: skip
            if outcome == kernels.DAMAGED:
                raise self.damage(place)
            if i < n:
                larger = np.empty(2 * len(out) + int(place), np.uint8)
                larger[: offsets[i]] = out[: offsets[i]]
                out = larger
        used = int(offsets[n])
        return FoundValues(found, RowBytes(out[:used] if 2 * used >= len(out) else out[:used].copy(), offsets))

    def _in_rounds(self, keys: RowBytes) -> FoundValues:
        n = len(keys)
        spans = addresses_of(keys)
        slots, state = _begun(self, keys)
        found, addresses = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        scratch = np.empty(self.scratch_size, np.uint8)
        todo, held = np.flatnonzero(slots >= 0), []
        while len(todo):
            group, rest, wanted = _next_group(self, spans[1], slots, state, todo)
            pinned = self.pin(wanted)
            descriptor = self.pinned_descriptor(pinned)
            outcomes = np.empty(len(group), np.int64)
            damage = kernels.advance(descriptor.ctypes.data, *spans, slots, state, group, outcomes, scratch.ctypes.data)
            if damage >= 0:
                raise self.damage(int(damage))
            done = group[outcomes == kernels.FOUND]
            found[done] = True
            # The pages may go before the next round: keep the values.
            held.append(np.empty(int(state[done, kernels.SIZE].sum()), np.uint8))
            kernels.copy_values(descriptor.ctypes.data, state, done, held[-1].ctypes.data, addresses)
            todo = np.concatenate([group[outcomes == kernels.NEEDS_PAGES], rest])
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(np.where(found, state[:, kernels.SIZE], 0), out=offsets[1:])
        values = np.empty(int(offsets[n]), np.uint8)
        kernels.gather_slots(state, addresses, found, values.ctypes.data, offsets)
        del held
        return FoundValues(found, RowBytes(values, offsets))


def _read_context(path: Path, checksum: int | None) -> HashContext:
    data = map_file(path).tobytes()
    context = decode_context(data, path=str(path))
    if checksum is not None and context_checksum(data) != checksum:
        raise CorruptFileError(
            f"checksum is {context_checksum(data):08x}, expected {checksum:08x}", path=str(path), offset=len(data) - 4
        )
    return context


def _begun(file: HashLookupStoreReader, keys: RowBytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first slot of each key, -1 for one that the filter keeps out, and what is known of its search: nothing."""
    slots, state = np.empty(len(keys), np.int64), np.full((len(keys), 3), -1, np.int64)
    state[:, kernels.PROBE] = 0
    kernels.begin_many(file.descriptor().ctypes.data, *addresses_of(keys), len(keys), slots)
    return slots, state


def _next_group(
    file: HashLookupStoreReader,
    offsets: int,
    slots: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
    todo: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the keys whose next pages may be in memory together (one key at least), the other keys, and those pages."""
    first, last = np.empty(len(todo), np.int64), np.empty(len(todo), np.int64)
    kernels.needs_of(file.descriptor().ctypes.data, offsets, slots, state, todo, first, last)
    order = np.argsort(first, kind="stable")
    todo, first, last = todo[order], first[order], last[order]
    pages = np.cumsum(np.concatenate([[1], first[1:] != first[:-1]])) + np.cumsum(last - first)
    room = file.working_bytes // file.context.page_size
    take = max(1, int(np.searchsorted(pages, room, "right")))
    spans = last[:take] - first[:take] + 1
    inside = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
    return todo[:take], todo[take:], np.unique(np.repeat(first[:take], spans) + inside)
