"""Deletion vector files ``index/index-<uuid>-<n>`` of index type DELETION_VECTORS.

``u8 1`` (file version), then vectors one after another; where each lies is said in the index manifest. Byte orders are mixed:

=======  ======================================================  =============================================================
part     32-bit vector                                           64-bit vector (``deletion-vectors.bitmap64``)
=======  ======================================================  =============================================================
size     i32 **big** endian: 4 + bytes of the bitmap             i32 **big** endian: 4 + bytes of the bitmap
magic    i32 **big** endian 1581511376 (``5e43f2d0``)            i32 **little** endian 1681511377 (``d1d33964``)
bitmap   roaring, portable, run-optimised (**little**)           i64 **little** count, then (i32 **little** high key, roaring)*
crc      i32 **big** endian CRC-32 of magic + bitmap             the same
entry    ``offset`` of the size field, ``length`` = size         ``offset`` of the size field, ``length`` = size + 8
=======  ======================================================  =============================================================

The magic says which form it is. lakeidx checks the CRC; Paimon's readers do not. A file without vectors is the version byte alone.

source   org.apache.paimon.deletionvectors.BitmapDeletionVector, Bitmap64DeletionVector, DeletionVectorsIndexFile, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap, BitMap64

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import DeletionVectorMeta

FILE_VERSION = 1
MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)

Positions = BitMap | BitMap64
"""Deleted rows of one data file: 0-based physical row numbers."""


@dataclass(frozen=True, slots=True)
class VectorAt:
    """A vector found by walking a file without its index manifest entry."""

    offset: int
    length: int
    positions: Positions


def _encode_vector(positions: Iterable[int], *, bitmap64: bool = False) -> bytes:
    """Encode one vector with size field and CRC.

    positions   0-based row numbers; a bitmap or any iterable of them
    """
    bitmap = BitMap64(positions) if bitmap64 else BitMap(positions)
    bitmap.run_optimize()
    body = (MAGIC_64 if bitmap64 else MAGIC_32) + bitmap.serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", crc32(body))


def encode_deletion_vectors(
    vectors: Mapping[str, Iterable[int]], *, bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionVectorMeta, ...]]:
    """Encode a file of vectors, and the ranges its index manifest entry must carry.

    vectors   data file name -> deleted row numbers; without any, the file is one byte and there are no ranges
    """
    parts, offset, metas = [bytes([FILE_VERSION])], 1, []
    for name, positions in vectors.items():
        bitmap = positions if isinstance(positions, (BitMap, BitMap64)) else BitMap64(positions)
        body = _encode_vector(bitmap, bitmap64=bitmap64)
        length = len(body) if bitmap64 else len(body) - 8
        metas.append(DeletionVectorMeta(data_file_name=name, offset=offset, length=length, cardinality=len(bitmap)))
        parts.append(body)
        offset += len(body)
    return b"".join(parts), tuple(metas)


def decode_vector(data: bytes, meta: DeletionVectorMeta, path: str | None = None) -> Positions:
    """Decode one vector from the bytes of its range alone, see `vector_range`.

    errors   CorruptFileError for bytes that are no vector, or one of another length or cardinality than its entry says
    """
    cursor = Cursor(data, path, base=meta.offset)
    found = _read(cursor)
    if found.length != meta.length:
        raise cursor.error(f"vector of {found.length} bytes, the index manifest has {meta.length}", at=meta.offset)
    if meta.cardinality is not None and meta.cardinality != len(found.positions):
        raise CorruptFileError(
            f"the vector of {meta.data_file_name} holds {len(found.positions)} positions, its entry has {meta.cardinality}",
            path=path,
            offset=meta.offset,
        )
    return found.positions


def vector_range(meta: DeletionVectorMeta) -> tuple[int, int]:
    """Return (offset, length) that surely covers a vector's size field, body and CRC; 8 bytes too long for 64-bit vectors."""
    return meta.offset, meta.length + 8


def scan_deletion_vectors(data: bytes, path: str | None = None) -> list[VectorAt]:
    """Read all vectors of a file, one after another, without an index manifest.

    errors   CorruptFileError
    """
    cursor = Cursor(data, path)
    version = cursor.u8()
    if version != FILE_VERSION:
        raise cursor.error(f"deletion vector file version: expected {FILE_VERSION}, found {version}", at=0)
    out = []
    while cursor.remaining:
        out.append(_read(cursor))
    return out


def _read(cursor: Cursor) -> VectorAt:
    at = cursor.pos
    size = cursor.i32be()
    if size < 4:
        raise cursor.error(f"a vector cannot have {size} bytes", at=at)
    body = cursor.bytes(size)
    magic = body[:4]
    if magic not in (MAGIC_32, MAGIC_64):
        raise cursor.error(f"expected a deletion vector, found magic {magic.hex()}", at=at + 4)
    if cursor.i32be() & 0xFFFFFFFF != crc32(body):
        raise cursor.error("the CRC-32 of the vector does not match", at=cursor.pos - 4)
    try:
        positions = (BitMap if magic == MAGIC_32 else BitMap64).deserialize(body[4:])
    except (ValueError, IndexError, OverflowError, MemoryError) as e:
        raise cursor.error(f"not a roaring bitmap: {e}", at=at + 8) from e
    return VectorAt(at, size if magic == MAGIC_32 else size + 8, positions)
