"""Paimon's sorted lookup file (SST): entries in key order in blocks, a Bloom filter, a block index, a footer.

All numbers are little-endian; "varint" is unsigned LEB128.

==============  ======================================================================================================
part            bytes
==============  ======================================================================================================
data blocks     each: stored body, trailer
bloom filter    bit set, no header, no trailer; may be absent
index block     stored body, trailer; one entry for each data block, in order
footer          36 bytes, see `Footer`
==============  ======================================================================================================

==============  ======================================================================================================
block           bytes
==============  ======================================================================================================
entry           varint key length, key, varint value length, value
body, aligned   entries of one size, i32 size of an entry, u8 0
body, unaligned entries, i32 start of each entry, i32 number of entries, u8 1 (also when there is no entry)
stored body     the body; or, when that saves more than an eighth: varint body size, payload (see `codec.containers.compress`)
trailer         u8 compression type, i32 CRC-32 (IEEE) of the stored body and the type byte
==============  ======================================================================================================

A data block is closed when entries + 5 (+ 4 for each entry once the sizes differ) exceed the block size. An index entry has the
last key of its block and, as value, varint offset (64 bits) and varint stored size without the trailer.

Checksums cover each block, but not the filter nor the footer: `lookup.sort_store.file` says what lakeidx does about that.

source   org.apache.paimon.sst (SstFileWriter, BlockWriter, BlockTrailer, Footer) and lookup.sort, release 1.4.2; the files
         of 0.9.0 and 1.3.1 are the same
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec, BlockCompressor, decompress_block
from lakeidx.codec.cursor import Cursor
from lakeidx.codec.varint import MAX_INT, decode_varint, encode_varint
from lakeidx.errors import CorruptFileError

MAGIC = 1481571681
FOOTER_SIZE = 36
TRAILER_SIZE = 5
#: Bytes of the last part of a body.
_BODY_TAIL_SIZE = 5
ALIGNED, UNALIGNED = 0, 1
_FOOTER = struct.Struct("<qiqqii")
_TRAILER = struct.Struct("<BI")
_I32 = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class BlockHandle:
    """Place of a block.

    offset   of its stored body
    size     of its stored body, without the 5 bytes of trailer
    """

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 36 bytes: i64 filter offset, i32 filter size, i64 filter entries, i64 index offset, i32 index size, i32 magic.

    index          handle of the index block
    bloom          handle of the filter (no trailer), or None; written as zeros then
    bloom_entries  the expected entries it was sized for; 0 without a filter
    """

    index: BlockHandle
    bloom: BlockHandle | None = None
    bloom_entries: int = 0


def encode_footer(footer: Footer) -> bytes:
    """Encode the 36 bytes."""
    bloom = footer.bloom or BlockHandle(0, 0)
    return _FOOTER.pack(bloom.offset, bloom.size, footer.bloom_entries, footer.index.offset, footer.index.size, MAGIC)


def decode_footer(data: bytes, file_size: int, *, path: str | None = None) -> Footer:
    """Read the last 36 bytes of a file and check that the parts they name fill its end exactly.

    errors   CorruptFileError naming the footer's field that cannot be right
    """
    base = file_size - FOOTER_SIZE
    if len(data) != FOOTER_SIZE or base < 0:
        raise CorruptFileError(
            f"expected a footer of {FOOTER_SIZE} bytes, found {len(data)}", path=path, offset=max(base, 0)
        )
    bloom_offset, bloom_size, entries, index_offset, index_size, magic = _FOOTER.unpack(data)
    if magic != MAGIC:
        raise CorruptFileError(f"expected magic number {MAGIC}, found {magic}", path=path, offset=base + 32)
    if index_size < _BODY_TAIL_SIZE or index_offset < 0 or index_offset + index_size + TRAILER_SIZE != base:
        raise CorruptFileError(
            f"index block at {index_offset} of {index_size} bytes does not end at the footer",
            path=path,
            offset=base + 20,
        )
    if (bloom_offset, bloom_size, entries) == (0, 0, 0):
        return Footer(BlockHandle(index_offset, index_size))
    if bloom_size <= 0 or entries <= 0 or bloom_offset < 0 or bloom_offset + bloom_size != index_offset:
        raise CorruptFileError(
            f"filter at {bloom_offset} of {bloom_size} bytes for {entries} entries does not end at the index block",
            path=path,
            offset=base,
        )
    return Footer(BlockHandle(index_offset, index_size), BlockHandle(bloom_offset, bloom_size), entries)


def stored_block(body: bytes | memoryview, compressor: BlockCompressor) -> tuple[bytes | memoryview, bytes]:
    """Frame a block body as stored in the file: stored body, compressed where that saves more than an eighth, and trailer."""
    stored, codec = body, BlockCodec.NONE
    if compressor.codec is not BlockCodec.NONE:
        packed = encode_varint(len(body)) + compressor.compress(body)
        if len(packed) < len(body) - len(body) // 8:
            stored, codec = packed, compressor.codec
    return stored, _TRAILER.pack(codec, crc32(stored, bytes([codec])))


def read_block(file: memoryview, handle: BlockHandle, *, path: str | None = None) -> memoryview:
    """Read the body of a block, checked against its trailer and decompressed.

    file     the whole file
    errors   CorruptFileError when the block leaves the file, its checksum is wrong or it does not decompress
    """
    end = handle.offset + handle.size
    if handle.offset < 0 or handle.size < _BODY_TAIL_SIZE or end + TRAILER_SIZE > len(file):
        raise CorruptFileError(
            f"block of {handle.size} bytes does not lie inside the file of {len(file)}",
            path=path,
            offset=max(handle.offset, 0),
        )
    stored = file[handle.offset : end]
    codec, expected = _TRAILER.unpack_from(file, end)
    found = crc32(stored, file[end : end + 1])
    if found != expected:
        raise CorruptFileError(
            f"block checksum is {found:08x}, its trailer has {expected:08x}", path=path, offset=handle.offset
        )
    return stored_body(stored, codec, path=path, base=handle.offset).data


def stored_body(stored: memoryview, codec: int, *, path: str | None = None, base: int = 0) -> npt.NDArray[np.uint8]:
    """Decompress the body of a block from its stored form; for codec none a view of it.

    errors   CorruptFileError when it does not decompress
    """
    if codec == BlockCodec.NONE:
        return np.frombuffer(stored, np.uint8)
    size, start = decode_varint(stored, 0, path=path, base=base)
    return decompress_block(codec, stored[start:], size, path=path, base=base + start)


def encode_index_value(handle: BlockHandle) -> bytes:
    """Encode the value of an index entry."""
    return encode_varint(handle.offset) + encode_varint(handle.size)


def decode_index_value(data: bytes, *, path: str | None = None, base: int = 0) -> BlockHandle:
    """Decode what `encode_index_value` made.

    errors   CorruptFileError when the bytes are not exactly two varints
    """
    offset, at = decode_varint(data, 0, limit=(1 << 63) - 1, path=path, base=base)
    size, at = decode_varint(data, at, path=path, base=base)
    if at != len(data):
        raise CorruptFileError("bytes follow the block handle", path=path, offset=base + at)
    return BlockHandle(offset, size)


def encode_body(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Build a block body from its entries: the scalar twin of the writer's kernel, and how the index block is made."""
    out, starts, sizes = bytearray(), [], set()
    for key, value in entries:
        starts.append(len(out))
        out += encode_varint(len(key)) + key + encode_varint(len(value)) + value
        sizes.add(len(out) - starts[-1])
    if len(sizes) == 1:
        out += _I32.pack(sizes.pop()) + bytes([ALIGNED])
    else:
        out += b"".join(_I32.pack(start) for start in starts) + _I32.pack(len(starts)) + bytes([UNALIGNED])
    return bytes(out)


def _entry_starts(body: bytes | memoryview, *, path: str | None = None, base: int = 0) -> tuple[list[int], int]:
    """Start of each entry of a body, and where the last one ends.

    errors   CorruptFileError when the tail of the body cannot be right
    """
    tail = len(body) - _BODY_TAIL_SIZE
    if tail < 0:
        raise CorruptFileError(f"expected a block of at least {_BODY_TAIL_SIZE} bytes", path=path, offset=base)
    count = _I32.unpack_from(body, tail)[0]
    if body[-1] == ALIGNED:
        if count <= 0 or tail % count:
            raise CorruptFileError(f"entries of {count} bytes do not fill {tail} bytes", path=path, offset=base + tail)
        return list(range(0, tail, count)), tail
    end = tail - 4 * count
    if body[-1] != UNALIGNED or count < 0 or end < 0:
        raise CorruptFileError(
            f"expected entry positions, found kind {body[-1]} with {count} entries", path=path, offset=base + tail
        )
    return [_I32.unpack_from(body, end + 4 * i)[0] for i in range(count)], end


def decode_body(body: bytes | memoryview, *, path: str | None = None, base: int = 0) -> list[tuple[bytes, bytes]]:
    """Decode all entries of a block body; the scalar twin of the reader's kernels.

    base     position of the body in the file, for errors (exact when it is not compressed)
    errors   CorruptFileError when the entries do not fill the body exactly, in the order of their positions
    """
    starts, end = _entry_starts(body, path=path, base=base)
    cursor = Cursor(memoryview(body)[:end], path, base=base)
    out = []
    for start in starts:
        if cursor.pos != start:
            raise cursor.error(f"expected an entry at {start} of the block")
        out.append((_sized(cursor), _sized(cursor)))
    if cursor.remaining:
        raise cursor.error(f"{cursor.remaining} bytes follow the last entry")
    return out


def describe_sst(file: memoryview, *, path: str | None = None) -> dict[str, Any]:
    """Describe the footer, index and number of entries as JSON values; checks the checksum of every block.

    errors   CorruptFileError for damage (but for the filter, whose bytes nothing in the file vouches for)
    """
    footer = decode_footer(bytes(file[-FOOTER_SIZE:]), len(file), path=path)
    bloom, index = footer.bloom or BlockHandle(0, 0), footer.index
    blocks = []
    for key, value in decode_body(read_block(file, index, path=path), path=path, base=index.offset):
        handle = decode_index_value(value, path=path, base=index.offset)
        body = read_block(file, handle, path=path)
        blocks.append(
            {
                "offset": handle.offset,
                "size": handle.size,
                "compression": BlockCodec(file[handle.offset + handle.size]).option_name,
                "body_size": len(body),
                "aligned": body[-1] == ALIGNED,
                "entries": len(_entry_starts(body, path=path, base=handle.offset)[0]),
                "last_key": key.hex(),
            }
        )
    return {
        "kind": "lookup store, sort",
        "size": len(file),
        "entries": sum(block["entries"] for block in blocks),
        "footer": {
            "bloom_offset": bloom.offset,
            "bloom_size": bloom.size,
            "bloom_entries": footer.bloom_entries,
            "index_offset": index.offset,
            "index_size": index.size,
            "magic": MAGIC,
        },
        "blocks": blocks,
    }


def _sized(cursor: Cursor) -> bytes:
    length = cursor.varint()
    if length > MAX_INT:
        raise cursor.error(f"a length of {length} bytes")
    return cursor.bytes(length)
