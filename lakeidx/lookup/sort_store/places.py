"""Where an SST has what is loaded at a time: a whole block, or a section of one (`format.lookup.sst_sections`).

"Block" means either in `SortFile` and the cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import BODY_TAIL_SIZE, POSITION_SIZE, TRAILER_SIZE, BlockHandle, Footer, read_block
from lakeidx.format.lookup.sst_sections import decode_sections
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import take_spans
from lakeidx.lookup.sort_store import check_kernels as checks

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks as they are stored, all int64[n] but for the checksums.

    starts, ends  range that the checksum covers
    checksums     uint32[n], expected
    contents      where the content begins; -1 where the size prefix is damaged
    content_ends  where it ends
    codecs        `BlockCodec` of the content
    sizes         bytes that it decompresses to, or 0
    entries       in it, when it does not have their positions, or 0
    """

    starts: Int64s
    ends: Int64s
    checksums: npt.NDArray[np.uint32]
    contents: Int64s
    content_ends: Int64s
    codecs: Int64s
    sizes: Int64s
    entries: Int64s


class Places(ABC):
    """Places of the blocks of a file.

    data       uint8[size], the whole file
    last_keys  of each block
    starts     int64[n], where each block begins
    end        of the last block
    """

    def __init__(self, data: npt.NDArray[np.uint8], last_keys: RowBytes, starts: Int64s, end: int) -> None:
        self.data = data
        self.last_keys = last_keys
        self.starts = starts
        self.end = end

    @abstractmethod
    def stored(self, numbers: Int64s) -> Stored:
        """Return how blocks are stored; unchecked where the file says it beside each block."""

    @property
    @abstractmethod
    def is_compressed(self) -> bool:
        """True when the first block is compressed."""

    @abstractmethod
    def body_bytes(self, numbers: Int64s) -> Int64s:
        """Return the bytes of decompressed bodies, with the positions; 0 where the content is not compressed. Unchecked, too."""

    @abstractmethod
    def content(self, number: int) -> npt.NDArray[np.uint8]:
        """Return the stored content of a block."""

    @abstractmethod
    def entry_counts(self) -> Int64s | None:
        """Return the number of entries of each block, by the unchecked tails; None when a block is compressed."""


class WholeBlocks(Places):
    """The blocks that the block index names.

    ends   int64[n], where each stored body ends and its trailer begins
    """

    def __init__(self, data: npt.NDArray[np.uint8], last_keys: RowBytes, starts: Int64s, ends: Int64s) -> None:
        super().__init__(data, last_keys, starts, int(ends[-1]) + TRAILER_SIZE if len(ends) else 0)
        self.ends = ends

    def stored(self, numbers: Int64s) -> Stored:
        """Read size prefixes and trailers."""
        ends = self.ends[numbers]
        sizes, contents = self._size_prefixes(numbers)
        # The type byte, which the checksum covers too, follows the stored body, and the checksum follows it.
        checksums = self.data[ends[:, None] + np.arange(1, TRAILER_SIZE)].view("<u4").reshape(-1)
        codecs = self.data[ends].astype(np.int64)
        return Stored(self.starts[numbers], ends + 1, checksums, contents, ends, codecs, sizes, np.zeros_like(ends))

    @property
    def is_compressed(self) -> bool:
        """Read the type byte of the first block."""
        return len(self.ends) > 0 and bool(self.data[self.ends[0]] != BlockCodec.NONE)

    def body_bytes(self, numbers: Int64s) -> Int64s:
        """Read size prefixes."""
        return self._size_prefixes(numbers)[0]

    def _size_prefixes(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return body sizes, 0 for a block that is not compressed, and where the content begins."""
        sizes, contents = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
        checks.body_sizes(self.data.ctypes.data, self.ends, self.starts, numbers, sizes, contents)
        return sizes, contents

    def content(self, number: int) -> npt.NDArray[np.uint8]:
        """Return the stored body of a block."""
        return self.data[self.starts[number] : self.ends[number]]

    def entry_counts(self) -> Int64s | None:
        """Read the tails."""
        if (self.data[self.ends] != BlockCodec.NONE).any():
            return None
        counts = np.empty(len(self.ends), np.int64)
        checks.entry_counts(self.data.ctypes.data, self.starts, self.ends, counts)
        return counts


class Sections(Places):
    """The sections that the section index names.

    values   of its entries
    blocks   what the block index names
    errors   CorruptFileError when the sections do not fill the blocks
    """

    def __init__(self, last_keys: RowBytes, values: RowBytes, blocks: WholeBlocks, path: str) -> None:
        ranges, contents, content_bytes, self._sizes, self._entries, checksums = decode_sections(
            values, blocks.end, path=path
        )
        self._ends = np.cumsum(ranges)
        super().__init__(blocks.data, last_keys, self._ends - ranges, blocks.end)
        if not np.isin(blocks.starts, self.starts).all():
            raise CorruptFileError("a block does not begin with a section", path=path, offset=blocks.end)
        self._contents = self.starts + contents
        self._content_ends = self._contents + content_bytes
        self._checksums = checksums.astype(np.uint32)
        positions = np.where(self._entries > 0, POSITION_SIZE * self._entries + BODY_TAIL_SIZE, 0)
        self._body_bytes: Int64s = self._sizes + positions
        self.blocks = blocks

    def stored(self, numbers: Int64s) -> Stored:
        """Return what the section index says."""
        sizes = self._sizes[numbers]
        return Stored(
            self.starts[numbers], self._ends[numbers], self._checksums[numbers], self._contents[numbers],
            self._content_ends[numbers], np.where(sizes > 0, int(BlockCodec.ZSTD), int(BlockCodec.NONE)), sizes,
            self._entries[numbers],
        )  # fmt: skip

    @property
    def is_compressed(self) -> bool:
        """Return what the section index says of the first section."""
        return len(self._sizes) > 0 and bool(self._sizes[0])

    def body_bytes(self, numbers: Int64s) -> Int64s:
        """Return what follows from the section index."""
        found: Int64s = self._body_bytes[numbers]
        return found

    def content(self, number: int) -> npt.NDArray[np.uint8]:
        """Return the stored content of a section."""
        return self.data[self._contents[number] : self._content_ends[number]]

    def entry_counts(self) -> Int64s | None:
        """Return None: there are sections only where blocks are compressed."""
        return None


def read_places(data: npt.NDArray[np.uint8], footer: Footer, order: KeyOrder, path: str) -> Places:
    """Read the block index and, where bytes are left between the data blocks and the filter, the section index.

    errors   CorruptFileError
    """
    last_keys, values = _read_index(data, footer.index, order, path)
    starts, ends = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    addresses = values.data.ctypes.data + values.offsets[:-1]
    fault, end = checks.read_handles(addresses, values.lengths, TRAILER_SIZE, starts, ends)
    if fault >= 0:
        raise CorruptFileError(
            f"the index does not have block {fault} begins at {end}, where the one before ends",
            path=path,
            offset=footer.index.offset,
        )
    blocks = WholeBlocks(data, last_keys, starts, ends)
    rest = (footer.bloom or footer.index).offset
    if end == rest:
        return blocks
    if end + TRAILER_SIZE > rest:
        raise CorruptFileError(f"data blocks end at {end}, the next part begins at {rest}", path=path, offset=end)
    return Sections(*_read_index(data, BlockHandle(end, rest - end - TRAILER_SIZE), order, path), blocks, path)


def _read_index(
    data: npt.NDArray[np.uint8], handle: BlockHandle, order: KeyOrder, path: str
) -> tuple[RowBytes, RowBytes]:
    """Read keys and values of an index block."""
    block = np.frombuffer(read_block(data.data, handle, path=path), np.uint8)
    fault, count, step, end, _ = checks.check_body(
        block.ctypes.data, len(block), *order.for_kernels, 0, -1, 0, -1, True
    )
    if fault >= 0:
        raise CorruptFileError(
            f"index block is damaged at {fault} of its {len(block)} bytes (key order: {order})",
            path=path,
            offset=handle.offset,
        )
    keys, key_sizes, values, sizes = (np.empty(count, np.int64) for _ in range(4))
    checks.spans_of_body(block.ctypes.data, count, step, end, keys, key_sizes, values, sizes)
    return take_spans(keys, key_sizes), take_spans(values, sizes)
