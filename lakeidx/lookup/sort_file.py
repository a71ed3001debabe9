"""An open SST: mapped, its footer, index and filter checked, its blocks checked as they are first used.

What protects which byte:

==============  =======================================================================================================
bytes           how damage is found
==============  =======================================================================================================
data blocks     trailer checksum, then every entry and the order of the keys, when a block is first used
index block     trailer checksum and order, at open; its handles must fill the data area without a gap
footer          magic number, and its parts must fill the end of the file exactly, at open
filter, and     the format has no checksum for them. With `checksum` (from `LookupFile`, kept in listings) everything after the
filter entries  data blocks is compared at open. Without it (files of other writers) the filter is computed again from all keys
                at open and compared byte for byte, unless `trust_filter` says not to: then a damaged filter can hide keys.
==============  =======================================================================================================

A filter that was computed again and is equal cannot hide a key, also when the footer's number of entries is damaged without
changing the number of probes: the one change that goes unnoticed is one that changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lakeidx.codec.checksum import crc32
from lakeidx.codec.rowbytes import RowBytes
from lakeidx.codec.varint import decode_varint
from lakeidx.errors import CorruptFileError
from lakeidx.format.sst import FOOTER_SIZE, TRAILER_SIZE, BlockHandle, decode_footer, decode_index_value, read_block
from lakeidx.lookup import sort_read_kernels as kernels
from lakeidx.lookup.block_cache import Block, BlockCache, BlockFile
from lakeidx.lookup.bloom import BloomFilter, BloomShape
from lakeidx.lookup.key_order import KeyOrder
from lakeidx.lookup.key_rank import common_prefix
from lakeidx.lookup.mapped_file import map_file
from lakeidx.lookup.packed import addresses_of, take_spans


class SortFile(BlockFile):
    """An open SST, shared by any number of readers.

    order         the order its writer used; a file in another order is found damaged
    checksum      CRC-32 of all bytes after the data blocks, or None
    size          expected bytes of the file, or None
    trust_filter  leave out the check of the filter when there is no checksum
    errors        NotFoundError; CorruptFileError naming the part and its position
    """

    def __init__(
        self,
        path: str,
        *,
        order: KeyOrder,
        cache: BlockCache,
        checksum: int | None = None,
        size: int | None = None,
        trust_filter: bool = False,
    ) -> None:
        self.path = path
        self.order = order
        self.data = map_file(path, expected_size=size)
        self.view = self.data.data
        self.footer = decode_footer(bytes(self.view[-FOOTER_SIZE:]), len(self.view), path=path)
        bloom, index = self.footer.bloom, self.footer.index
        self.data_end = bloom.offset if bloom else index.offset
        self.last_keys, self.handles = self._read_index(read_block(self.view, index, path=path))
        if checksum is not None and crc32(self.view[self.data_end :]) != checksum:
            raise CorruptFileError(
                f"filter, index and footer have checksum {crc32(self.view[self.data_end :]):08x}, expected {checksum:08x}",
                path=path,
                offset=self.data_end,
            )
        n = len(self.handles)
        self.counts, self.steps, self.ends, self.skips = (np.zeros(n, np.int64) for _ in range(4))
        super().__init__(n, cache)
        self.filter = self._read_filter()
        self._last_ranks = np.zeros(n, np.uint64)
        self._descriptor = np.zeros(kernels.DESCRIPTOR_SLOTS, np.int64)
        self.descriptor = self._describe_to_kernels(self._descriptor, self.addresses)
        if self.filter is not None and checksum is None and not trust_filter:
            self._check_filter(self.filter)

    def pinned_descriptor(self, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """A descriptor over other block addresses; kernels take ``.ctypes.data`` of it."""
        copy = self._descriptor.copy()
        copy[kernels.BODIES] = addresses.ctypes.data
        return copy

    def entries(self) -> Iterator[tuple[npt.NDArray[np.uint8], RowBytes, RowBytes]]:
        """Each block with its keys and values, in order."""
        for number in range(len(self.handles)):
            body = self.block(number)
            keys, key_sizes, values, sizes = self._spans(number, body)
            yield body, take_spans(keys, key_sizes), take_spans(values, sizes)

    def _read_index(self, body: memoryview) -> tuple[RowBytes, list[BlockHandle]]:
        offset = self.footer.index.offset
        block = np.frombuffer(body, np.uint8)
        fault, count, step, end, _ = kernels.check_body(
            block.ctypes.data, len(block), *self.order.for_kernels, 0, -1, 0, -1
        )
        if fault >= 0:
            raise CorruptFileError(
                f"index block is damaged at {fault} of its {len(block)} bytes (key order: {self.order})",
                path=self.path,
                offset=offset,
            )
        keys, key_sizes, values, sizes = (np.empty(count, np.int64) for _ in range(4))
        kernels.spans_of_body(block.ctypes.data, count, step, end, keys, key_sizes, values, sizes)
        handles: list[BlockHandle] = []
        place = 0
        for value in take_spans(values, sizes).to_list():
            handle = decode_index_value(value, path=self.path, base=offset)
            if handle.offset != place:
                raise CorruptFileError(
                    f"index says block {len(handles)} is at {handle.offset}, the one before ends at {place}",
                    path=self.path,
                    offset=offset,
                )
            place += handle.size + TRAILER_SIZE
            handles.append(handle)
        if place != self.data_end:
            raise CorruptFileError(
                f"data blocks end at {place}, the next part begins at {self.data_end}", path=self.path, offset=place
            )
        return take_spans(keys, key_sizes), handles

    def _read_filter(self) -> BloomFilter | None:
        bloom = self.footer.bloom
        if bloom is None:
            return None
        bits = self.data[bloom.offset : bloom.offset + bloom.size]
        return BloomFilter(BloomShape(self.footer.bloom_entries, bloom.size), bits)

    def _describe_to_kernels(self, out: npt.NDArray[np.int64], addresses: npt.NDArray[np.int64]) -> int:
        if self.filter is not None:
            out[kernels.FILTER] = self.filter.bits.ctypes.data
            out[kernels.FILTER_BITS] = self.filter.shape.bits
            out[kernels.FILTER_PROBES] = self.filter.shape.probes
        out[kernels.LAST_KEYS] = self.last_keys.data.ctypes.data
        out[kernels.LAST_KEY_OFFSETS] = self.last_keys.offsets.ctypes.data
        out[kernels.BLOCKS] = len(self.handles)
        out[kernels.CODES], out[kernels.FIELDS] = self.order.for_kernels
        last_keys = addresses_of(self.last_keys)
        n = len(self.handles)
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
        out[kernels.ENDS] = self.ends.ctypes.data
        return int(out.ctypes.data)

    def load_block(self, number: int) -> tuple[Block, bool]:
        """A block body that kernels may search."""
        handle = self.handles[number]
        body = np.frombuffer(read_block(self.view, handle, path=self.path), np.uint8)
        bounds = self.last_keys.offsets[max(number - 1, 0) : number + 2].tolist()
        base = self.last_keys.data.ctypes.data
        before = (base + bounds[0], bounds[1] - bounds[0]) if number else (0, -1)
        fault, count, step, end, skip = kernels.check_body(
            body.ctypes.data, len(body), *self.order.for_kernels, *before, base + bounds[-2], bounds[-1] - bounds[-2]
        )
        if fault >= 0:
            raise CorruptFileError(
                f"entry at {fault} of the block's {len(body)} bytes is damaged or out of order (key order: {self.order})",
                path=self.path,
                offset=handle.offset,
            )
        # The same values whenever a block is loaded again, so readers that still use the old copy are not disturbed.
        self.counts[number], self.steps[number], self.ends[number], self.skips[number] = count, step, end, skip
        return body, self.data[handle.offset + handle.size] == 0

    def block_bytes(self, number: int) -> int:
        """What a block takes in memory, as its unchecked prefix says; only for planning."""
        handle = self.handles[number]
        end = handle.offset + handle.size
        if self.data[end] == 0:
            return 0
        return decode_varint(self.view[handle.offset : end], 0, path=self.path, base=handle.offset)[0]

    def _spans(self, number: int, body: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], ...]:
        spans = tuple(np.empty(self.counts[number], np.int64) for _ in range(4))
        kernels.spans_of_body(body.ctypes.data, self.counts[number], self.steps[number], self.ends[number], *spans)
        return spans

    def _check_filter(self, stored: BloomFilter) -> None:
        again = BloomFilter(stored.shape)
        for number in range(len(self.handles)):
            body = self.block(number)
            keys, key_sizes, _, _ = self._spans(number, body)
            kernels.add_to_filter(keys, key_sizes, again.bits.ctypes.data, stored.shape.bits, stored.shape.probes)
        different = np.flatnonzero(again.bits != stored.bits)
        if len(different):
            raise CorruptFileError(
                f"{len(different)} bytes of the filter are not what the {self.counts.sum()} keys of the file give",
                path=self.path,
                offset=self.data_end + int(different[0]),
            )
