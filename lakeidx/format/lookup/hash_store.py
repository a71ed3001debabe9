"""Paimon's hash lookup file (PalDB-like, releases 0.8 to 1.3), and the context file that lakeidx writes beside it.

The data file does not describe itself: no magic number, no header, no checksum. Paimon keeps what is needed to read it in memory;
lakeidx writes it to ``<data file>.context``.

Image (the data file when it is not compressed)
-----------------------------------------------

==============  ======================================================================================================
part            bytes
==============  ======================================================================================================
filter          Bloom filter of all keys (`lookup.bloom`), may be absent
slot tables     for each key length, ascending: slots of ``length + w`` bytes, w = longest varint of an offset in the table
data sections   for each key length, ascending: one 00 byte, then values: varint size, bytes
==============  ======================================================================================================

A used slot is the key, the varint offset of its value in the data section (>= 1), and zeros; a free slot is zeros, known by
offset 0. Slots per table: ``floor(count / load factor + 0.5)``. Key k lies at the first slot that was free from
``(hash & 0x7fffffff) mod slots`` on, wrapping, in the order of putting. A value equal to the one put before it for the same key
length is not stored again.

Compressed, the image is cut into pages of the page size (a power of two; the last shorter), each stored as i32 **big-endian**
payload size and payload (`codec.containers.compress`), always compressed.

Context file, version 1, little-endian
--------------------------------------

==================================  ==================================================================================
bytes                               meaning
==================================  ==================================================================================
4 bytes ``LKHC``, u16 version 1     what it is
u8                                  compression type of the pages
u8                                  0
i64, i64, i32                       bytes of the data file, bytes of the image, page size
i64, i32                            expected entries and bytes of the filter (0, 0 without one)
i32                                 number of key lengths, then for each, ascending:
i32 x 4, i64 x 2                    length, keys, slots, slot size, position of slot table and of data section in the image
i32                                 number of pages, then for each:
u32, u32                            stored bytes (with the payload size) and their CRC-32
u32                                 CRC-32 of all bytes before
==================================  ==================================================================================

The page checksums cover every byte of the data file.

source   org.apache.paimon.lookup.hash (HashLookupStoreWriter, HashContext) and io.PageFileOutput, release 0.9.0
"""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError, UnsupportedError

CONTEXT_SUFFIX = ".context"
MAGIC = b"LKHC"
VERSION = 1
PAGE_HEADER_SIZE = 4
_HEAD = struct.Struct("<4sHBBqqiqi")
_SECTION = struct.Struct("<iiiiqq")
_COUNT = struct.Struct("<i")
_PAGE = struct.Struct("<II")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class LengthSection:
    """The keys of one length.

    index_offset, data_offset   positions in the image
    """

    key_length: int
    count: int
    slots: int
    slot_size: int
    index_offset: int
    data_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HashContext:
    """Settings to read a hash lookup file with.

    page_sizes      int64[pages], stored bytes of each page
    page_checksums  uint32[pages]
    """

    codec: BlockCodec
    page_size: int
    image_size: int
    bloom_entries: int
    bloom_size: int
    sections: tuple[LengthSection, ...]
    page_sizes: npt.NDArray[np.int64]
    page_checksums: npt.NDArray[np.uint32]

    @property
    def file_size(self) -> int:
        """Bytes of the data file."""
        return int(self.page_sizes.sum())

    @property
    def entries(self) -> int:
        """Keys in the file."""
        return sum(section.count for section in self.sections)


def slots_for(count: int, load_factor: float) -> int:
    """Return the slots of a table of `count` keys. Java's Math.round: halves go up."""
    return math.floor(count / load_factor + 0.5)


def _image_pages(image_size: int, page_size: int) -> int:
    """Count the pages of an image."""
    return -(-image_size // page_size)


def encode_context(context: HashContext) -> bytes:
    """Encode the context file."""
    out = bytearray(
        _HEAD.pack(
            MAGIC, VERSION, context.codec, 0, context.file_size, context.image_size, context.page_size,
            context.bloom_entries, context.bloom_size,
        )
    )  # fmt: skip
    out += _COUNT.pack(len(context.sections))
    for s in context.sections:
        out += _SECTION.pack(s.key_length, s.count, s.slots, s.slot_size, s.index_offset, s.data_offset)
    out += _COUNT.pack(len(context.page_sizes))
    for size, checksum in zip(context.page_sizes.tolist(), context.page_checksums.tolist(), strict=True):
        out += _PAGE.pack(size, checksum)
    return bytes(out + _CRC.pack(crc32(out)))


def context_checksum(data: bytes) -> int:
    """Compute the checksum that a context file ends with, from its other bytes.

    (The CRC of the whole file would be the same number for every intact file.)
    """
    return crc32(data[:-4])


def decode_context(data: bytes, *, path: str | None = None) -> HashContext:
    """Read a context file.

    errors   CorruptFileError for a wrong checksum or contents that contradict each other, UnsupportedError for a newer version
    """
    if len(data) < _HEAD.size + 3 * 4 or data[:4] != MAGIC:
        raise CorruptFileError(f"expected a context file, found {data[:4].hex() or 'nothing'}", path=path, offset=0)
    (expected,) = _CRC.unpack_from(data, len(data) - 4)
    found = context_checksum(data)
    if found != expected:
        raise CorruptFileError(f"checksum is {found:08x}, expected {expected:08x}", path=path, offset=len(data) - 4)
    _, version, codec, zero, file_size, image_size, page_size, bloom_entries, bloom_size = _HEAD.unpack_from(data)
    if version != VERSION:
        raise UnsupportedError(f"context file of version {version}; this release reads version {VERSION}", path=path)
    cursor = Cursor(data[:-4], path)
    cursor.seek(_HEAD.size)
    sections = [LengthSection(*_SECTION.unpack(cursor.bytes(_SECTION.size))) for _ in range(max(cursor.i32le(), 0))]
    count = cursor.i32le()
    pages = np.frombuffer(cursor.bytes(max(count, 0) * _PAGE.size), np.dtype("<u4")).reshape(-1, 2)
    if zero or codec not in list(BlockCodec) or cursor.remaining:
        raise CorruptFileError("fields that no writer of this version fills like that", path=path, offset=6)
    context = HashContext(
        codec=BlockCodec(codec), page_size=page_size, image_size=image_size, bloom_entries=bloom_entries,
        bloom_size=bloom_size, sections=tuple(sections), page_sizes=pages[:, 0].astype(np.int64),
        page_checksums=pages[:, 1].astype(np.uint32),
    )  # fmt: skip
    if context.file_size != file_size:
        raise CorruptFileError(f"pages of {context.file_size} bytes in a file of {file_size}", path=path, offset=8)
    check_context(context, path=path)
    return context


def check_context(context: HashContext, *, path: str | None = None) -> None:
    """Check that the parts fill the image without a gap, so that a reader needs to check positions inside a part only.

    errors   CorruptFileError naming the part
    """

    def refuse(what: str) -> CorruptFileError:
        return CorruptFileError(f"the context contradicts itself: {what}", path=path)

    c = context
    if c.page_size <= 0 or c.page_size & (c.page_size - 1):
        raise refuse(f"a page size of {c.page_size}")
    if c.image_size < 0 or len(c.page_sizes) != _image_pages(c.image_size, c.page_size):
        raise refuse(f"{len(c.page_sizes)} pages of {c.page_size} for an image of {c.image_size} bytes")
    if (c.bloom_size > 0) != (c.bloom_entries > 0) or c.bloom_size < 0:
        raise refuse(f"a filter of {c.bloom_size} bytes for {c.bloom_entries} entries")
    place, last = c.bloom_size, -1
    for s in c.sections:
        if s.key_length <= last or not 0 < s.count <= s.slots or not 1 <= s.slot_size - s.key_length <= 10:
            raise refuse(f"section {s}")
        if s.index_offset != place:
            raise refuse(f"slot table of length {s.key_length} at {s.index_offset}, expected {place}")
        place, last = place + s.slots * s.slot_size, s.key_length
    for s in c.sections:
        # Two bytes at least: the 00 that begins a section, and the size of one value.
        if s.data_offset < place or (s is c.sections[0] and s.data_offset != place):
            raise refuse(f"data of length {s.key_length} at {s.data_offset}, expected {place} or more")
        place = s.data_offset + 2
    if place > c.image_size or (not c.sections and place != c.image_size):
        raise refuse(f"parts of {place} bytes in an image of {c.image_size}")


def describe_context(context: HashContext) -> dict[str, Any]:
    """Describe the context as JSON values."""
    return {
        "kind": "lookup store, hash",
        "size": context.file_size,
        "entries": context.entries,
        "compression": context.codec.option_name,
        "page_size": context.page_size,
        "pages": len(context.page_sizes),
        "image_size": context.image_size,
        "bloom_size": context.bloom_size,
        "bloom_entries": context.bloom_entries,
        "key_lengths": [asdict(section) for section in context.sections],
    }
