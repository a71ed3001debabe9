"""Paimon's 32-bit murmur hash of rows and byte strings.

===================  ==============================================================================================
variant              what it reads
===================  ==============================================================================================
words (rows)         little-endian 32-bit words; the length is a multiple of 4
bytes (strings)      whole words as above, then every leftover byte, sign-extended, as a word of its own
===================  ==============================================================================================

Seed 42; both mix the byte length in at the end. The tail of the byte variant is not that of standard murmur3.

source   org.apache.paimon.utils.MurmurHashUtils (hashBytesByWords, hashBytes), release 1.4.2
"""

from __future__ import annotations

import struct

import numba
import numpy as np
import numpy.typing as npt

from lakeidx.codec.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError

SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF


def _step(h: int, k: int) -> int:
    k = k * _C1 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    h ^= k * _C2 & _MASK
    h = (h << 13 | h >> 19) & _MASK
    return (h * 5 + 0xE6546B64) & _MASK


def _finish(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def hash_words(data: bytes) -> int:
    """Hash of BinaryRow bytes: signed 32 bits, as ``BinaryRow.hashCode``.

    errors   InvalidInputError when the length is not a multiple of 4
    """
    if len(data) % 4:
        raise InvalidInputError(f"a row hash reads whole 4-byte words, not {len(data)} bytes")
    h = SEED
    for (word,) in struct.iter_unpack("<I", data):
        h = _step(h, word)
    return _finish(h, len(data))


def hash_bytes(data: bytes) -> int:
    """Hash of any byte string: signed 32 bits, as ``MurmurHashUtils.hashBytes`` and ``BinaryString.hashCode``."""
    whole = len(data) // 4 * 4
    h = SEED
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        h = _step(h, word)
    for byte in data[whole:]:
        h = _step(h, byte if byte < 128 else byte | 0xFFFFFF00)
    return _finish(h, len(data))


@numba.njit(inline="always")
def mix(h, k):  # type: ignore[no-untyped-def]
    """One word step over uint32 state, for kernels."""
    k = np.uint32(k * np.uint32(0xCC9E2D51))
    k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
    k = np.uint32(k * np.uint32(0x1B873593))
    h = np.uint32(h ^ k)
    h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
    return np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))


@numba.njit(inline="always")
def finish(h, length):  # type: ignore[no-untyped-def]
    """The closing steps over uint32 state, for kernels."""
    h = np.uint32(h ^ np.uint32(length))
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@numba.njit(cache=True, nogil=True)
def _hash_many(data, offsets, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        length = end - at
        h = np.uint32(42)
        while at + 4 <= end:
            word = (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            h = mix(h, np.uint32(word))
            at += 4
        while at < end:
            h = mix(h, np.uint32(np.int32(np.int8(data[at]))))
            at += 1
        out[i] = np.int32(finish(h, length))


def hash_bytes_many(rows: RowBytes) -> npt.NDArray[np.int32]:
    """`hash_bytes` of each string.

    returns  int32[n]
    """
    out = np.empty(len(rows), np.int32)
    _hash_many(rows.data, rows.offsets, out)
    return out


def hash_words_many(rows: RowBytes) -> npt.NDArray[np.int32]:
    """`hash_words` of each row.

    returns  int32[n]
    errors   InvalidInputError when a length is not a multiple of 4
    """
    if np.any(rows.lengths & 3):
        raise InvalidInputError("a row hash reads whole 4-byte words; some rows have other lengths")
    return hash_bytes_many(rows)
