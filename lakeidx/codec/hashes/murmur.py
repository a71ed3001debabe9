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

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen
from lakeidx.codec.kernels import FINISH_1, FINISH_2, finalize, mix_strings
from lakeidx.codec.rows.rowbytes import RowBytes
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
    h = (h ^ h >> 16) * FINISH_1 & _MASK
    h = (h ^ h >> 13) * FINISH_2 & _MASK
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


def hash_bytes_many(rows: RowBytes) -> npt.NDArray[np.int32]:
    """Return `hash_bytes` of each string.

    returns  int32[n]
    """
    state = np.full(len(rows), SEED, np.uint32)
    mix_strings(state, frozen(rows.data), frozen(rows.offsets))
    state ^= rows.lengths.astype(np.uint32)
    finalize(state)
    return state.view(np.int32)
