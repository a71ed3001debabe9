"""Block compression of Paimon's lookup stores: codec names, type bytes, and payload layouts.

========  ====  ===========================================================================================
codec     type  payload
========  ====  ===========================================================================================
none      0     the bytes
zstd      1     bare frames, one after another, without checksum. Java writes one, without its size (as a stream)
lz4       2     i32 LE compressed size, i32 LE original size, LZ4 block
lzo       3     i32 LE compressed size, i32 LE original size, LZO1X stream (read only)
========  ====  ===========================================================================================

Decompressing takes no more than the caller's `size` bytes (LZO: 255 times the payload), so a damaged file cannot fill the memory.

source   org.apache.paimon.compression.BlockCompressionType / ZstdBlockCompressor / Lz4BlockCompressor, release 1.4.2
"""

from __future__ import annotations

import struct
import threading
from enum import IntEnum

import lz4.block
import numpy as np
import numpy.typing as npt
import zstandard
from lzallright import LZOCompressor, LZOError

from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError

_SIZES = struct.Struct("<ii")
_MAX_ZSTD_LEVEL = 22
_MOST_FRAME_HEADER = 18
_local = threading.local()


class BlockCodec(IntEnum):
    """The type byte of a block trailer."""

    NONE = 0
    ZSTD = 1
    LZ4 = 2
    LZO = 3

    @property
    def option_name(self) -> str:
        """The name that ``lookup.cache-spill-compression`` uses."""
        return self.name.lower()


def parse_codec(name: str) -> BlockCodec:
    """Parse the codec of an option value, in any case.

    errors   InvalidInputError for another name
    """
    try:
        return BlockCodec[name.strip().upper()]
    except KeyError:
        raise InvalidInputError(
            f"option 'lookup.cache-spill-compression': none, zstd, lz4 or lzo, not {name!r}"
        ) from None


class BlockCompressor:
    """Compresses blocks one by one with one codec; not for use by several threads at once.

    level    zstd level 1..22 (``spill-compression.zstd-level``); the other codecs have none
    errors   UnsupportedError for lzo, InvalidInputError for a level out of range
    """

    def __init__(self, codec: BlockCodec, level: int = 1) -> None:
        if codec is BlockCodec.LZO:
            raise UnsupportedError(
                "option 'lookup.cache-spill-compression' = lzo: lzo blocks are read but not written; use zstd or lz4"
            )
        if codec is BlockCodec.ZSTD and not 1 <= level <= _MAX_ZSTD_LEVEL:
            raise InvalidInputError(
                f"option 'spill-compression.zstd-level': a level is 1 to {_MAX_ZSTD_LEVEL}, not {level}"
            )
        self.codec = codec
        self._zstd = zstandard.ZstdCompressor(level=level) if codec is BlockCodec.ZSTD else None

    def compress(self, block: bytes | memoryview) -> bytes:
        """Compress one block (`block` must be contiguous)."""
        if self._zstd is not None:
            # As a stream of unknown size: that is what Java's ZstdOutputStream does, and it decides the frame header.
            stream = self._zstd.compressobj()
            return stream.compress(block) + stream.flush()
        if self.codec is BlockCodec.LZ4:
            packed = lz4.block.compress(block, store_size=False)
            found: bytes = _SIZES.pack(len(packed), len(block)) + packed
            return found
        return bytes(block)


def decompress_block(
    codec: int, payload: memoryview, size: int, *, path: str | None = None, base: int = 0
) -> npt.NDArray[np.uint8]:
    """Decompress a payload.

    codec    type byte
    size     original size, known from elsewhere
    base     position of the payload in `path`, for errors
    returns  uint8[size]; for codec none a view of the payload
    errors   CorruptFileError for an unknown type byte, a damaged payload or another size
    """
    if codec == BlockCodec.NONE:
        out = np.frombuffer(payload, np.uint8)
    elif codec == BlockCodec.ZSTD:
        out = _decompress_zstd(payload, size, path, base)
    elif codec in (BlockCodec.LZ4, BlockCodec.LZO):
        if len(payload) < _SIZES.size:
            raise CorruptFileError(
                f"expected an 8-byte block header, found {len(payload)} bytes", path=path, offset=base
            )
        packed, original = _SIZES.unpack_from(payload)
        if packed != len(payload) - _SIZES.size or original != size:
            raise CorruptFileError(
                f"block header has {packed} -> {original} bytes, expected {len(payload) - _SIZES.size} -> {size}",
                path=path,
                offset=base,
            )
        body = payload[_SIZES.size :]
        unpack = _decompress_lzo if codec == BlockCodec.LZO else _decompress_lz4
        out = unpack(body, size, path, base + _SIZES.size)
    else:
        raise CorruptFileError(f"unknown compression type {codec}", path=path, offset=base)
    if len(out) != size:
        raise CorruptFileError(f"block holds {len(out)} bytes, expected {size}", path=path, offset=base)
    return out


def _decompress_zstd(payload: memoryview, size: int, path: str | None, base: int) -> npt.NDArray[np.uint8]:
    try:
        # One byte more than expected, so that a longer frame shows; 0 would mean "no limit".
        found = _zstd_context().decompress(_bounded(payload, size, path, base), max_output_size=size + 1)
    except zstandard.ZstdError as e:
        raise CorruptFileError(f"zstd frame is damaged: {e}", path=path, offset=base) from e
    if len(found) < size:
        found = _decompress_zstd_frames(payload, size, path, base)
    return np.frombuffer(found, np.uint8)


def _decompress_zstd_frames(payload: memoryview, size: int, path: str | None, base: int) -> bytes:
    """Decompress zstd frames that follow one another, up to `size` bytes and perhaps one more."""
    try:
        with _zstd_context().stream_reader(payload, read_across_frames=True) as reader:
            return reader.read(size + 1)
    except zstandard.ZstdError as e:
        raise CorruptFileError(f"zstd frame is damaged: {e}", path=path, offset=base) from e


def _bounded(frame: memoryview, size: int, path: str | None, base: int) -> memoryview:
    """Return a frame, unless its header declares more bytes: the library would allocate as much memory, whatever the limit."""
    said = zstandard.frame_content_size(frame[:_MOST_FRAME_HEADER])
    if said > size:
        raise CorruptFileError(f"block says it holds {said} bytes, expected {size}", path=path, offset=base)
    return frame


def _zstd_context() -> zstandard.ZstdDecompressor:
    # A decompression context is large and not thread-safe: one for each thread.
    context = getattr(_local, "zstd", None)
    if context is None:
        context = _local.zstd = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    return context


def _decompress_lz4(payload: memoryview, size: int, path: str | None, base: int) -> npt.NDArray[np.uint8]:
    try:
        raw = lz4.block.decompress(payload, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, MemoryError, OverflowError) as e:
        raise CorruptFileError(f"LZ4 block is damaged: {e}", path=path, offset=base) from e
    return np.frombuffer(raw, np.uint8)


def _decompress_lzo(payload: memoryview, size: int, path: str | None, base: int) -> npt.NDArray[np.uint8]:
    try:
        return np.frombuffer(LZOCompressor.decompress(payload, size), np.uint8)
    except LZOError as e:
        # Its text has all that was decompressed.
        raise CorruptFileError("LZO block is damaged", path=path, offset=base) from e
