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
from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, inlined, kernel, load_u64, load_word
from lakeidx.errors import InvalidInputError

SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF
# Multipliers of the finaliser.
_FINISH_1, _FINISH_2 = 0x85EBCA6B, 0xC2B2AE35


def _step(h: int, k: int) -> int:
    k = k * _C1 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    h ^= k * _C2 & _MASK
    h = (h << 13 | h >> 19) & _MASK
    return (h * 5 + 0xE6546B64) & _MASK


def _finish(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * _FINISH_1 & _MASK
    h = (h ^ h >> 13) * _FINISH_2 & _MASK
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


@helper
def mix(h: Any, k: Any) -> Any:
    """Mix one word into murmur's uint32 state."""
    k = np.uint32(k * np.uint32(0xCC9E2D51))
    k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
    h = np.uint32(h ^ np.uint32(k * np.uint32(0x1B873593)))
    h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
    return np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))


@inlined
def finish(h: Any) -> Any:
    """Return Murmur's 32-bit finaliser over uint32 state; a bijection."""
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(_FINISH_1))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(_FINISH_2))
    return np.uint32(h ^ (h >> np.uint32(16)))


@kernel
def mix_u32(state: Any, words: Any) -> None:
    """Mix one 4-byte word per row into state uint32[n]."""
    for i in range(len(state)):
        state[i] = mix(state[i], words[i])


@kernel
def mix_slots32(state: Any, words: Any) -> None:
    """Mix one 8-byte slot per row, whose upper half is zero, into state uint32[n]."""
    for i in range(len(state)):
        state[i] = mix(mix(state[i], words[i]), np.uint32(0))


@kernel
def mix_u64(state: Any, words: Any) -> None:
    """Mix one 8-byte word per row, low half first, into state uint32[n]."""
    for i in range(len(state)):
        word = words[i]
        state[i] = mix(mix(state[i], np.uint32(word)), np.uint32(word >> np.uint64(32)))


@kernel
def mix_bytes_slots(state: Any, cursor: Any, data: Any, starts: Any, lengths: Any, inline_max: Any) -> None:
    """Mix the slots of a bytes column; cursor (offset in the row) moves past what does not fit a slot."""
    for i in range(len(state)):
        length = lengths[i]
        low, high = np.uint32(0), np.uint32(0)
        if length > inline_max:
            low, high = np.uint32(length), np.uint32(cursor[i])
            cursor[i] += (length + 7) & ~7
        elif length >= 0:
            word = load_word(data, starts[i], length)
            low = np.uint32(word)
            high = np.uint32(np.uint64(word >> np.uint64(32)) | np.uint64((0x80 + length) << 24))
        state[i] = mix(mix(state[i], low), high)


@kernel
def mix_bytes_tails(state: Any, data: Any, starts: Any, lengths: Any, inline_max: Any) -> None:
    """Mix the variable parts of a bytes column, zero-padded to 8 bytes."""
    for i in range(len(state)):
        length = lengths[i]
        if length > inline_max:
            at, h = starts[i], state[i]
            end = at + length
            while at + 8 <= end:
                word = load_u64(data, at)
                h = mix(mix(h, np.uint32(word)), np.uint32(word >> np.uint64(32)))
                at += 8
            if at < end:
                word = load_word(data, at, end - at)
                h = mix(mix(h, np.uint32(word)), np.uint32(word >> np.uint64(32)))
            state[i] = h


@kernel
def finalize(state: Any) -> None:
    """Return Murmur's closing steps; the byte length is already xored into state uint32[n]."""
    for i in range(len(state)):
        state[i] = finish(state[i])
