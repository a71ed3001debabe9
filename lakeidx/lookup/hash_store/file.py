"""An open hash lookup file: mapped, described by its context, its pages checked as they are first used.

Every byte of the data file is covered by the page checksums of the context, and the context by its own checksum (and, when it is
known from a listing, by `checksum`). A file opened with a context of another writer has no page checksums: then damage is found
only where it breaks the format, and a wrong value is possible.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32_ranges
from lakeidx.codec.containers.compress import BlockCodec, as_arrays, decompress_block, decompress_zstd_ranges
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.hash_store import (
    PAGE_HEADER_SIZE,
    HashContext,
    check_context,
    context_checksum,
    decode_context,
)
from lakeidx.lookup.block_cache import Block, BlockCache, BlockFile, Loaded, Pinned
from lakeidx.lookup.bloom import BloomFilter, BloomShape
from lakeidx.lookup.hash_store import read_kernels as kernels
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.mapped_file import map_file

_PAYLOAD_SIZE = struct.Struct(">i")
_ONE_PAGE_SHIFT = 62


class HashFile(BlockFile):
    """An open hash lookup file, shared by any number of readers.

    order     form of the keys (a hash store has no order)
    context   None: read from the file beside
    checksum  `hash_store.context_checksum` of the context file, or None
    size      expected bytes of the data file, or None
    errors    NotFoundError; CorruptFileError naming the file and position
    """

    def __init__(
        self,
        path: str,
        *,
        order: KeyOrder,
        cache: BlockCache,
        context: HashContext | None = None,
        checksum: int | None = None,
        size: int | None = None,
    ) -> None:
        self.path = path
        if context is None:
            context = _read_context(context_path(path), checksum)
        else:
            check_context(context, path=path)
        self.context = context
        self.order = order
        self.data = map_file(path, expected_size=context.file_size)
        if size is not None and size != len(self.data):
            raise CorruptFileError(f"expected {size} bytes, found {len(self.data)}", path=path, offset=len(self.data))
        self.positions = np.cumsum(context.page_sizes) - context.page_sizes
        self.shift = context.page_size.bit_length() - 1
        n = len(context.page_sizes)
        super().__init__(n, cache)
        self._filter_bits = self._read_range(0, context.bloom_size)
        self.filter = None
        if context.bloom_size:
            self.filter = BloomFilter(BloomShape(context.bloom_entries, context.bloom_size), self._filter_bits)
        self._by_length = self._length_tables()
        self._used = np.zeros(max(n, 1), np.uint8)
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

    def take_used(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the pages that kernels read since the last call."""
        used = np.flatnonzero(self._used[: len(self.positions)])
        self._used[:] = 0
        return used

    def damage(self, place: int) -> CorruptFileError:
        """Make the error for contents that break the format at a place of the image."""
        page = place >> self.shift
        offset = place if self.context.codec is BlockCodec.NONE else int(self.positions[page])
        return CorruptFileError(
            f"slot or value at {place} of the image points outside its section", path=self.path, offset=offset
        )

    def image_range(self, place: int, size: int) -> bytes | None:
        """Return the bytes of the image, or None when a page is not in memory."""
        if self.is_flat:
            return self.data[place : place + size].tobytes()
        if not size:
            # Behind the last byte of the image there may be no page.
            return b""
        first, last = place >> self.shift, (place + size - 1) >> self.shift
        pages = [self.in_memory(page) for page in range(first, last + 1)]
        if any(page is None for page in pages):
            return None
        start = place - (first << self.shift)
        whole = pages[0] if len(pages) == 1 else np.concatenate([p for p in pages if p is not None])
        assert whole is not None
        return whole[start : start + size].tobytes()

    def load_blocks(self, numbers: npt.NDArray[np.int64]) -> Loaded:
        """Load the pages of the image."""
        starts, sizes = self.positions[numbers], self.context.page_sizes[numbers]
        view = self.data.data
        if self.context.page_checksums is not None:
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
            return Loaded({}, self.data.ctypes.data + starts)
        if self.context.codec is BlockCodec.ZSTD and self._headers_fit(starts, sizes):
            begins, ends = (starts + PAGE_HEADER_SIZE).tolist(), (starts + sizes).tolist()
            image_bytes = self.block_bytes(numbers).tolist()
            bodies, addresses = as_arrays(decompress_zstd_ranges(view, begins, ends, image_bytes, path=self.path))
            return Loaded(dict(zip(numbers.tolist(), bodies, strict=True)), addresses)
        copies = {
            number: self._decompressed(number, view[start : start + size], start)
            for number, start, size in zip(numbers.tolist(), starts.tolist(), sizes.tolist(), strict=True)
        }
        return Loaded(copies, np.array([page.ctypes.data for page in copies.values()], np.int64))

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

    def _headers_fit(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> bool:
        """Return whether the header of every page has the page's length."""
        if int(sizes.min()) < PAGE_HEADER_SIZE:
            return False
        headers = self.data[starts[:, None] + np.arange(PAGE_HEADER_SIZE)].view(">i4").reshape(-1)
        return bool((headers == sizes - PAGE_HEADER_SIZE).all())

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
        out[kernels.USED] = self._used.ctypes.data
        return out


def _read_context(path: Path, checksum: int | None) -> HashContext:
    data = map_file(path).tobytes()
    context = decode_context(data, path=str(path))
    if checksum is not None and context_checksum(data) != checksum:
        raise CorruptFileError(
            f"checksum is {context_checksum(data):08x}, expected {checksum:08x}", path=str(path), offset=len(data) - 4
        )
    return context
