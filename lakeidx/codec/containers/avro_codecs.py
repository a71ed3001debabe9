"""The codecs of Avro blocks: compressing, and decompressing bytes that may be damaged.

source   Avro 1.11 specification
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import zstandard

from lakeidx.codec.cursor import Cursor
from lakeidx.errors import InvalidInputError

# No honest block comes near; a damaged length must not make the reader allocate without bound.
_MAX_BLOCK_BYTES = 1 << 29
_USUAL_BLOCK_BYTES = 1 << 20
# Errors that fastavro's decoder raises on damaged bytes; anything else is a bug and must be seen.
DECODE_ERRORS = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, StopIteration, MemoryError)
INFLATE_ERRORS = (zstandard.ZstdError, zlib.error, lzma.LZMAError, pa.ArrowException, OSError, *DECODE_ERRORS)
"""What decompressing damaged bytes raises."""
Unpack = Callable[[bytes | memoryview], bytes]
"""Decompresses a block; raises INFLATE_ERRORS for damaged bytes."""
_OF_THREAD = threading.local()


def codec_name(codec: str) -> str:
    """Return how a file's header names a codec."""
    return "zstandard" if codec == "zstd" else codec


def compressor(codec: str, level: int) -> Callable[[bytes | memoryview], bytes]:
    """Return what compresses a block; InvalidInputError for another codec."""
    if codec in ("zstandard", "zstd"):
        # Making one takes longer than a small block does; threads must not share one.
        made = _OF_THREAD.__dict__.setdefault("compressors", {})
        if level not in made:
            made[level] = zstandard.ZstdCompressor(level=level)
        compress: Callable[[bytes | memoryview], bytes] = made[level].compress
        return compress
    if codec == "deflate":
        return lambda raw: zlib.compress(raw, level, -15)
    if codec not in _COMPRESS:
        raise InvalidInputError(f"Avro codec {codec!r} is not one of zstd, null, deflate, snappy, bzip2, xz")
    return _COMPRESS[codec]


def inflate_of(codec: bytes, cursor: Cursor) -> Unpack:
    """Return what decompresses a block.

    errors   CorruptFileError
    """
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise cursor.error(f"unknown Avro codec {codec.decode('utf-8', 'replace')!r}", at=4)
    return inflate


def _snappy(raw: bytes | memoryview) -> bytes:
    compressed: bytes = pa.compress(bytes(raw), "snappy", asbytes=True)
    return compressed + struct.pack(">I", zlib.crc32(raw))


def _unzstd(body: bytes | memoryview) -> bytes:
    # Java's stream writer leaves the content size out of the frame; its blocks are far below this.
    limit = _USUAL_BLOCK_BYTES
    if (size := zstandard.get_frame_parameters(body).content_size) <= _MAX_BLOCK_BYTES:
        limit = max(1, size)
    # Making a decompressor takes as long as unpacking a block; threads must not share one.
    if not hasattr(_OF_THREAD, "zstd"):
        _OF_THREAD.zstd = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    with contextlib.suppress(zstandard.ZstdError):
        whole: bytes = _OF_THREAD.zstd.decompress(body, max_output_size=limit, allow_extra_data=False)
        return whole
    # Larger, of several frames, or damaged: five times slower, and it says what is wrong.
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(body, read_across_frames=True) as reader:
        raw = reader.read(_MAX_BLOCK_BYTES + 1)
    if len(raw) > _MAX_BLOCK_BYTES:
        raise ValueError(f"more than {_MAX_BLOCK_BYTES} bytes")
    return raw


def _undeflate(body: bytes | memoryview) -> bytes:
    return _whole(zlib.decompressobj(-15), body)


def _unbzip2(body: bytes | memoryview) -> bytes:
    return _whole(bz2.BZ2Decompressor(), body)


def _unxz(body: bytes | memoryview) -> bytes:
    return _whole(lzma.LZMADecompressor(), body)


def _whole(stream: Any, body: bytes | memoryview) -> bytes:
    raw: bytes = stream.decompress(body, _MAX_BLOCK_BYTES)
    if not stream.eof:
        raise ValueError("the compressed stream does not end")
    return raw


def _unsnappy(body: bytes | memoryview) -> bytes:
    if len(body) < 5:
        raise ValueError("too short for snappy")
    size = Cursor(body).varint()
    if size > _MAX_BLOCK_BYTES:
        raise ValueError(f"more than {_MAX_BLOCK_BYTES} bytes")
    raw: bytes = pa.decompress(body[:-4], size, "snappy", asbytes=True)
    if struct.unpack(">I", body[-4:])[0] != zlib.crc32(raw):
        raise ValueError("the CRC-32 after the snappy block does not match")
    return raw


_INFLATE: dict[bytes, Unpack] = {
    b"null": bytes,
    b"zstandard": _unzstd,
    b"deflate": _undeflate,
    b"snappy": _unsnappy,
    b"bzip2": _unbzip2,
    b"xz": _unxz,
}
_COMPRESS: dict[str, Unpack] = {"null": bytes, "snappy": _snappy, "bzip2": bz2.compress, "xz": lzma.compress}
