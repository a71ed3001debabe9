"""Reader of the sort store: batch lookups in an SST.

An open SST: mapped, its footer, index and filter checked, its blocks checked as they are first used.

What protects which byte:

==============  =======================================================================================================
bytes           how damage is found
==============  =======================================================================================================
data blocks     checksum of its trailer when a block is loaded; then every entry, unless the block was loaded before and has the
                same checksum; without `checksum` also form and order of the keys (the writer of a listed file has checked them,
                and the checksum says that these are its bytes)
index blocks    trailer checksum and order, at open; their ranges must fill the data area without a gap
footer          magic number, and its parts must fill the end of the file exactly, at open
filter, and     the format has no checksum for them. With `checksum` (from `LookupFile`, kept in listings) everything after the
filter entries  data blocks is compared at open. Without it (files of other writers) the filter is computed again from all keys
                at open and compared byte for byte.
==============  =======================================================================================================

A filter that was computed again and is equal cannot hide a key, also when the footer's number of entries is damaged without
changing the number of probes: the one change that goes unnoticed is one that changes no answer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32, crc32_ranges
from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import FOOTER_SIZE, TRAILER_SIZE, decode_footer, read_block, stored_body
from lakeidx.lookup.block_cache import Block, BlockCache, BlockFile, LoadedBlocks
from lakeidx.lookup.bloom import BloomShape, LookupBloom
from lakeidx.lookup.keys.order import KeyOrder, common_prefix
from lakeidx.lookup.packed import addresses_of, contiguous, take_packed
from lakeidx.lookup.scratch_file import map_file
from lakeidx.lookup.sort_store import read_kernels as kernels
from lakeidx.lookup.store import FoundValues


class SortLookupStoreReader(BlockFile):
    """Answers from one SST: the filter, then a binary search of the index, then one of the block.

    order     the order its writer used; a file in another order is found damaged
    checksum  CRC-32 of all bytes after the data blocks, or None
    errors    NotFoundError; CorruptFileError naming the part and its position
    source    org.apache.paimon.lookup.sort.SortLookupStoreReader, release 1.4.2
    """

    def __init__(self, path: str, *, order: KeyOrder, cache: BlockCache, checksum: int | None = None) -> None:
        self.path = path
        self.order = order
        self.data = map_file(path)
        self.view = self.data.data
        self.footer = decode_footer(bytes(self.view[-FOOTER_SIZE:]), len(self.view), path=path)
        self.last_keys, self.starts, self._ends = self._read_index()
        self.data_end = int(self._ends[-1]) + TRAILER_SIZE if len(self._ends) else 0
        rest = (self.footer.bloom or self.footer.index).offset
        # Files of development versions have an index of parts of blocks here, which the checksum of a listed file covers.
        if self.data_end > rest or (self.data_end < rest and checksum is None):
            raise CorruptFileError(
                f"data blocks end at {self.data_end}, the next part begins at {rest}", path=path, offset=self.data_end
            )
        self._base = int(self.data.ctypes.data)
        self._check_order = checksum is None
        if checksum is not None and crc32(self.view[self.data_end :]) != checksum:
            raise CorruptFileError(
                f"filter, index and footer have checksum {crc32(self.view[self.data_end :]):08x}, expected {checksum:08x}",
                path=path,
                offset=self.data_end,
            )
        n = len(self.starts)
        self.counts, self.steps, self.entry_ends, self.skips = (np.zeros(n, np.int64) for _ in range(4))
        # Checksums of the blocks whose entries were checked; -1 for none.
        self._checked = np.full(n, -1, np.int64)
        super().__init__(n, cache)
        self.filter = self._read_filter()
        self._last_ranks = np.zeros(n, np.uint64)
        self._descriptor = np.zeros(kernels.DESCRIPTOR_SLOTS, np.int64)
        self.descriptor = self._describe_to_kernels(self._descriptor, self.addresses)
        if self.filter is not None and checksum is None:
            self._check_filter(self.filter)

    def pinned_descriptor(self, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Make a descriptor over other block addresses; kernels get its ``.ctypes.data``."""
        copy = self._descriptor.copy()
        copy[kernels.BODIES] = addresses.ctypes.data
        return copy

    def _read_filter(self) -> LookupBloom | None:
        bloom = self.footer.bloom
        if bloom is None:
            return None
        bits = self.data[bloom.offset : bloom.offset + bloom.size]
        return LookupBloom(BloomShape(self.footer.bloom_entries, bloom.size), bits)

    def _describe_to_kernels(self, out: npt.NDArray[np.int64], addresses: npt.NDArray[np.int64]) -> int:
        if self.filter is not None:
            out[kernels.FILTER] = self.filter.bits.ctypes.data
            out[kernels.FILTER_BITS] = self.filter.shape.bits
            out[kernels.FILTER_PROBES] = self.filter.shape.probes
        out[kernels.LAST_KEYS] = self.last_keys.data.ctypes.data
        out[kernels.LAST_KEY_OFFSETS] = self.last_keys.offsets.ctypes.data
        out[kernels.BLOCKS] = len(self.starts)
        out[kernels.CODES], out[kernels.FIELDS] = self.order.for_kernels
        last_keys = addresses_of(self.last_keys)
        n = len(self.starts)
        codes = self.order.for_kernels
        skip = 0
        if n:
            bounds = self.last_keys.offsets
            skip = int(common_prefix(
                last_keys[0], bounds[1], last_keys[0] + bounds[n - 1], bounds[n] - bounds[n - 1], *codes
            ))  # fmt: skip
        kernels.ranks_of(*last_keys, n, *codes, skip, self._last_ranks)
        out[kernels.LAST_SKIP] = skip
        out[kernels.LAST_RANKS] = self._last_ranks.ctypes.data
        out[kernels.SKIPS] = self.skips.ctypes.data
        out[kernels.BODIES] = addresses.ctypes.data
        out[kernels.COUNTS] = self.counts.ctypes.data
        out[kernels.STEPS] = self.steps.ctypes.data
        out[kernels.ENDS] = self.entry_ends.ctypes.data
        return int(out.ctypes.data)

    def load_blocks(self, numbers: npt.NDArray[np.int64]) -> LoadedBlocks:
        """Load the block bodies that kernels may search."""
        starts, ends = self.starts[numbers], self._ends[numbers]
        # The type byte, which the checksum covers too, follows the stored body, and the checksum follows it.
        expected = self.data[ends[:, None] + np.arange(1, TRAILER_SIZE)].view("<u4").reshape(-1)
        found = crc32_ranges(self.view, starts.tolist(), (ends + 1).tolist())
        if not np.array_equal(found, expected):
            bad = np.flatnonzero(found != expected)[0]
            raise CorruptFileError(
                f"block checksum is {found[bad]:08x}, expected {expected[bad]:08x}",
                path=self.path,
                offset=int(starts[bad]),
            )
        addresses, sizes = self._base + starts, ends - starts
        copies = self._decompressed(numbers, addresses, sizes)
        new = found != self._checked[numbers]
        self._check_bodies(numbers[new], addresses[new], sizes[new], whole=self._check_order)
        self._checked[numbers[new]] = found[new]
        return LoadedBlocks(copies, addresses)

    def _decompressed(
        self, numbers: npt.NDArray[np.int64], addresses: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> dict[int, Block]:
        """Decompress blocks that are compressed; their addresses and sizes replace those in the file."""
        ends = self._ends[numbers]
        codecs = self.data[ends]
        copies = {}
        for i in np.flatnonzero(codecs != BlockCodec.NONE).tolist():
            start, end = int(self.starts[numbers[i]]), int(ends[i])
            body = stored_body(self.view[start:end], int(codecs[i]), path=self.path, base=start)
            copies[int(numbers[i])] = body
            addresses[i], sizes[i] = body.ctypes.data, len(body)
        return copies

    def _check_bodies(
        self,
        numbers: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        *,
        whole: bool,
    ) -> None:
        damaged, fault = kernels.check_bodies(
            addresses, sizes, numbers, *self.order.for_kernels, *addresses_of(self.last_keys), whole,
            self.counts, self.steps, self.entry_ends, self.skips,
        )  # fmt: skip
        if damaged >= 0:
            raise CorruptFileError(
                f"entry at {fault} of the block's {sizes[damaged]} bytes is damaged or out of order (key order: {self.order})",
                path=self.path,
                offset=int(self.starts[numbers[damaged]]),
            )

    def file_range(self, number: int) -> Block:
        """Read the stored body of a block."""
        return self.data[self.starts[number] : self._ends[number]]

    def block_bytes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the bytes of decompressed bodies, by the unchecked prefixes; 0 for a block that is not compressed."""
        sizes = np.empty(len(numbers), np.int64)
        kernels.body_sizes(self.data.ctypes.data, self._ends, self.starts, numbers, sizes)
        return sizes

    def _read_index(self) -> tuple[RowBytes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Read the block index: last key of each block, where it begins, and where its stored body ends."""
        index = self.footer.index
        block = np.frombuffer(read_block(self.view, index, path=self.path), np.uint8)
        fault, count, step, end, _ = kernels.check_body(
            block.ctypes.data, len(block), *self.order.for_kernels, 0, -1, 0, -1, True
        )
        if fault >= 0:
            raise CorruptFileError(
                f"index block is damaged at {fault} of its {len(block)} bytes (key order: {self.order})",
                path=self.path,
                offset=index.offset,
            )
        keys, key_sizes, values, sizes = (np.empty(count, np.int64) for _ in range(4))
        kernels.spans_of_body(block.ctypes.data, count, step, end, keys, key_sizes, values, sizes)
        starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        fault, place = kernels.read_handles(values, sizes, TRAILER_SIZE, starts, ends)
        if fault >= 0:
            raise CorruptFileError(
                f"block {fault} of the index does not begin at {place}, where the one before ends",
                path=self.path,
                offset=index.offset,
            )
        return take_packed(keys, key_sizes), starts, ends

    def _spans(self, number: int, body: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], ...]:
        spans = tuple(np.empty(self.counts[number], np.int64) for _ in range(4))
        kernels.spans_of_body(
            body.ctypes.data, self.counts[number], self.steps[number], self.entry_ends[number], *spans
        )
        return spans

    def _check_filter(self, stored: LookupBloom) -> None:
        again = LookupBloom(stored.shape)
        for number in range(len(self.starts)):
            body = self.block(number)
            keys, key_sizes, _, _ = self._spans(number, body)
            kernels.add_to_filter(keys, key_sizes, again.bits.ctypes.data, stored.shape.bits, stored.shape.probes)
        different = np.flatnonzero(again.bits != stored.bits)
        if len(different):
            raise CorruptFileError(
                f"{len(different)} bytes of the filter are not what the {self.counts.sum()} keys of the file have",
                path=self.path,
                offset=self.data_end + int(different[0]),
            )

    def lookup_many(self, keys: RowBytes) -> FoundValues:
        """Look up the values of n keys, in one pass: hash and filter, index search, then all keys of a block together."""
        keys = contiguous(keys)
        self.order.check(keys)
        n = len(keys)
        blocks, counts, key_bytes = self._located(keys)
        # Keys are copied together by block and values taken block by block: the input's own order would miss the CPU's
        # cache several times for each key.
        first_places, first_bytes = np.cumsum(counts) - counts, np.cumsum(key_bytes) - key_bytes
        placed = int(counts.sum())
        places, starts = np.empty(n, np.int32), np.empty(placed + 1, np.int64)
        starts[placed] = key_bytes.sum()
        by_block = np.empty(int(starts[placed]), np.uint8)
        kernels.partition(
            *addresses_of(keys), blocks, first_places.copy(), first_bytes, places, by_block.ctypes.data, starts
        )
        found, sizes = np.empty(placed, np.int64), np.empty(placed, np.int32)
        held = []
        for part in self.parts(np.flatnonzero(counts)):
            pinned = self.pin(part)
            descriptor = self.pinned_descriptor(pinned.addresses)
            size = kernels.search_many(
                descriptor.ctypes.data, by_block.ctypes.data, starts, part, first_places, counts, found, sizes
            )
            held.append(np.empty(int(size), np.uint8))
            if len(part):
                last_place = first_places[part[-1]] + counts[part[-1]]
                kernels.copy_found(first_places[part[0]], last_place, found, sizes, held[-1].ctypes.data)
        hits, offsets = np.empty(n, np.bool_), np.empty(n + 1, np.int64)
        kernels.answer_offsets(places, sizes, hits, offsets)
        values = np.empty(int(offsets[n]), np.uint8)
        kernels.gather_entries(places, found, values.ctypes.data, offsets)
        del held
        return FoundValues(hits, RowBytes(values, offsets))

    def _located(self, keys: RowBytes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the block of each key, and how many keys, of how many bytes, each block has."""
        n_blocks = len(self.starts)
        blocks = np.empty(len(keys), np.int32)
        counts, key_bytes = np.zeros(n_blocks, np.int64), np.zeros(n_blocks, np.int64)
        kernels.locate_many(self.descriptor, *addresses_of(keys), len(keys), blocks, counts, key_bytes)
        return blocks, counts, key_bytes
