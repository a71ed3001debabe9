"""Base64 columns, and decimals written as the bytes of an integer, decoded a whole column at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_BYTES_OF_DECIMAL = 16
_DIGITS = 38
_SIX_BITS = np.full(256, 255, dtype=np.uint8)
for _i, _c in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _SIX_BITS[_c] = _i
_PAD = ord("=")


def decode_base64(text: pa.Array) -> pa.Array:
    """Decode padded base64 texts; null stays null.

    errors   ValueError when a value is not base64
    """
    filled = pc.fill_null(text, "")
    lengths = np.asarray(pc.binary_length(filled)).astype(np.int64)
    if (lengths % 4).any():
        raise ValueError("not base64: the length is not a multiple of 4")
    joined = np.frombuffer(b"".join(pc.cast(filled, pa.binary()).to_pylist()), dtype=np.uint8)
    six = np.where(joined == _PAD, 0, _SIX_BITS[joined]).reshape(-1, 4)
    ends = np.cumsum(lengths)
    padded = joined == _PAD
    last = np.zeros(len(joined), dtype=bool)
    filled_ends = ends[lengths > 0]
    last[filled_ends - 1] = True
    last[filled_ends - 2] = padded[filled_ends - 1]
    if (six == 255).any() or (padded & ~last).any():
        raise ValueError("not base64")
    three = np.empty((len(six), 3), dtype=np.uint8)
    three[:, 0] = (six[:, 0] << 2) | (six[:, 1] >> 4)
    three[:, 1] = (six[:, 1] << 4) | (six[:, 2] >> 2)
    three[:, 2] = (six[:, 2] << 6) | six[:, 3]
    pads = padded.reshape(-1, 4).sum(axis=1)
    kept = np.arange(3)[None, :] < (3 - pads)[:, None]
    counts = (
        np.add.reduceat(3 - pads, (ends - lengths)[lengths > 0] // 4) if len(filled_ends) else np.empty(0, np.int64)
    )
    sizes = np.zeros(len(filled), dtype=np.int64)
    sizes[lengths > 0] = counts
    offsets = np.zeros(len(filled) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = pa.py_buffer(three[kept].tobytes())
    out = pa.BinaryArray.from_buffers(pa.binary(), len(filled), [None, pa.py_buffer(offsets), data])
    return out if text.null_count == 0 else pc.if_else(pc.is_valid(text), out, pa.scalar(None, pa.binary()))


def decode_latin_1(text: pa.Array) -> pa.Array:
    """Decode texts whose characters stand for a byte each; null stays null.

    errors   ValueError for a character beyond 255
    """
    filled = pc.fill_null(text, "")
    offsets = np.zeros(len(filled) + 1, dtype=np.int32)
    np.cumsum(np.asarray(pc.utf8_length(filled)), out=offsets[1:])
    data = "".join(filled.to_pylist()).encode("latin-1")
    out = pa.BinaryArray.from_buffers(pa.binary(), len(filled), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return out if text.null_count == 0 else pc.if_else(pc.is_valid(text), out, pa.scalar(None, pa.binary()))


def decimals_of(values: pa.Array, scale: int) -> pa.Array:
    """Read big-endian two's complement integers (bytes) as decimals of a scale, DECIMAL(38, scale).

    errors   ValueError for a number of more than 16 bytes, or without any
    """
    valid = np.asarray(pc.is_valid(values))
    sizes = np.asarray(pc.fill_null(pc.binary_length(values), 1)).astype(np.int64)
    if (sizes > _BYTES_OF_DECIMAL).any() or (sizes < 1).any():
        raise ValueError("a decimal has 1 to 16 bytes")
    filled = pc.fill_null(values, b"\0")
    if isinstance(filled, pa.ChunkedArray):
        filled = filled.combine_chunks()
    words = _little_endian(np.frombuffer(b"".join(filled.to_pylist()), dtype=np.uint8), sizes)
    buffers = [None, pa.py_buffer(words.tobytes())]
    numbers = pa.Decimal128Array.from_buffers(pa.decimal128(_DIGITS, scale), len(sizes), buffers)
    return numbers if valid.all() else pc.if_else(pa.array(valid), numbers, pa.scalar(None, numbers.type))


def _little_endian(data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Put big-endian integers into 16 bytes each, sign-extended, lowest byte first."""
    ends = np.cumsum(sizes)
    places = np.arange(_BYTES_OF_DECIMAL)
    at = ends[:, None] - 1 - places[None, :]
    inside = places[None, :] < sizes[:, None]
    sign = np.where(data[ends - sizes] & 0x80, 0xFF, 0).astype(np.uint8)
    return np.where(inside, data[np.where(inside, at, 0)], sign[:, None]).astype(np.uint8)
