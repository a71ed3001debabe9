"""Hash functions of Hudi's bloom filters: Hadoop's MurmurHash (a murmur2 variant) and Jenkins' lookup3.

==========  ===========================================================================================================
step        Hadoop's murmur over bytes b[0..n-1] with a 32-bit seed; all arithmetic wraps at 32 bits, m = 0x5bd1e995
==========  ===========================================================================================================
start       h = seed XOR n
words       per 4 bytes, little endian: k *= m, k ^= k >>> 24, k *= m; h *= m, h ^= k
tail        t = n mod 4 bytes, each SIGN-EXTENDED, counted from the end: b[n-3] << 16, b[n-2] << 8, b[n-1]; then h *= m
finish      h ^= h >>> 13, h *= m, h ^= h >>> 15
==========  ===========================================================================================================

The tail makes it neither standard murmur2 nor murmur3: it is reversed, and a byte from 0x80 flips all higher bits.
A filter's k positions chain: the hash of round i is the seed of round i + 1, from 0; position = abs(Java h % bits).

source   org.apache.hudi.common.bloom.HashFunction, org.apache.hadoop.util.hash.{MurmurHash,JenkinsHash} in Hudi 1.0.2;
         golden/hudi/bloom.json
"""

from __future__ import annotations

import numpy as np

from lakeidx.codec.jit import inlined, kernel
from lakeidx.errors import InvalidInputError

#: Hash type codes in a filter's header.
JENKINS, MURMUR = 0, 1

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_JENKINS_START = 0xDEADBEEF


def murmur_hash(data: bytes, seed: int) -> int:
    """Return Hadoop's MurmurHash: signed 32 bits.

    errors   InvalidInputError for an empty key, which Hudi refuses, too
    """
    n = len(data)
    if n == 0:
        raise InvalidInputError("a bloom filter cannot contain an empty key")
    h = (seed ^ n) & _MASK
    for at in range(0, n - n % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    tail = n % 4
    if tail:
        for i in range(1, tail + 1):
            byte = data[n - i]
            signed = byte if byte < 0x80 else byte | 0xFFFFFF00
            h ^= signed << 8 * (i - 1) & _MASK
        h = h * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return _signed(h ^ h >> 15)


def jenkins_hash(data: bytes, seed: int) -> int:
    """Return Jenkins' lookup3 (hashlittle) of a key: signed 32 bits. Only filters with the old header use it.

    errors   InvalidInputError for an empty key
    """
    n = len(data)
    if n == 0:
        raise InvalidInputError("a bloom filter cannot contain an empty key")
    a = b = c = (_JENKINS_START + n + seed) & _MASK
    at = 0
    while n - at > 12:
        a, b, c = (v + w & _MASK for v, w in zip((a, b, c), _three_words(data[at : at + 12]), strict=True))
        a, b, c = _jenkins_mix(a, b, c)
        at += 12
    a, b, c = (v + w & _MASK for v, w in zip((a, b, c), _three_words(data[at:]), strict=True))
    return _signed(_jenkins_finish(a, b, c))


def bloom_positions(data: bytes, *, rounds: int, bits: int, hash_type: int = MURMUR) -> list[int]:
    """Return the bit positions of one key, in round order (repeats possible).

    rounds   number of hash rounds k, > 0
    bits     size of the filter's bit vector, > 0
    """
    function = murmur_hash if hash_type == MURMUR else jenkins_hash
    h, out = 0, []
    for _ in range(rounds):
        h = function(data, h)
        out.append(abs(h) % bits)
    return out


def _signed(h: int) -> int:
    return h - (1 << 32) if h >> 31 else h


def _three_words(data: bytes) -> tuple[int, int, int]:
    padded = data.ljust(12, b"\0")
    return tuple(int.from_bytes(padded[i : i + 4], "little") for i in (0, 4, 8))  # type: ignore[return-value]


def _rotate(x: int, k: int) -> int:
    return (x << k | x >> 32 - k) & _MASK


def _jenkins_mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for k in (4, 6, 8, 16, 19, 4):
        # Each of the six steps is the same with the names turned: (a, b, c) -> (b, c, a).
        a = (a - c & _MASK) ^ _rotate(c, k)
        c = c + b & _MASK
        a, b, c = b, c, a
    return a, b, c


def _jenkins_finish(a: int, b: int, c: int) -> int:
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotate(b, k) & _MASK
        a, b, c = b, c, a
    # Seven turns of three names end one step past the last value written.
    return b


@inlined
def murmur_word(data, at):  # type: ignore[no-untyped-def]
    """Return the mixed little-endian word at a position, for kernels (the part of a round that does not need the seed)."""
    k = np.uint32(
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )
    k = np.uint32(k * np.uint32(0x5BD1E995))
    k = np.uint32(k ^ (k >> np.uint32(24)))
    return np.uint32(k * np.uint32(0x5BD1E995))


@inlined
def murmur_tail(data, end, tail):  # type: ignore[no-untyped-def]
    """Return the word that the last `tail` (0..3) bytes before `end` are XORed in as, for kernels."""
    x = np.uint32(0)
    if tail >= 3:
        x ^= np.uint32(np.int32(np.int8(data[end - 3]))) << np.uint32(16)
    if tail >= 2:
        x ^= np.uint32(np.int32(np.int8(data[end - 2]))) << np.uint32(8)
    if tail >= 1:
        x ^= np.uint32(np.int32(np.int8(data[end - 1])))
    return np.uint32(x)


@inlined
def murmur_round(words, count, tail, tail_value, length, seed):  # type: ignore[no-untyped-def]
    """Mix one word that `murmur_word` prepared: uint32, for kernels."""
    h = np.uint32(seed ^ np.uint32(length))
    for w in range(count):
        h = np.uint32(np.uint32(h * np.uint32(0x5BD1E995)) ^ words[w])
    if tail:
        h = np.uint32(np.uint32(h ^ tail_value) * np.uint32(0x5BD1E995))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0x5BD1E995))
    return np.uint32(h ^ (h >> np.uint32(15)))


@inlined
def _rot(x, k):  # type: ignore[no-untyped-def]
    return np.uint32((x << np.uint32(k)) | (x >> np.uint32(32 - k)))


@kernel
def jenkins_round(data, start, end, seed):  # type: ignore[no-untyped-def]
    """Return lookup3 of ``data[start:end]``: uint32, for kernels."""
    a = np.uint32(np.uint32(0xDEADBEEF) + np.uint32(end - start) + np.uint32(seed))
    b = a
    c = a
    at = start
    while True:
        left = end - at
        w0 = np.uint32(0)
        w1 = np.uint32(0)
        w2 = np.uint32(0)
        for i in range(min(12, left)):
            byte = np.uint32(np.uint32(data[at + i]) << np.uint32(8 * (i & 3)))
            if i < 4:
                w0 |= byte
            elif i < 8:
                w1 |= byte
            else:
                w2 |= byte
        a = np.uint32(a + w0)
        b = np.uint32(b + w1)
        c = np.uint32(c + w2)
        if left <= 12:
            break
        a = np.uint32(np.uint32(a - c) ^ _rot(c, 4))
        c = np.uint32(c + b)
        b = np.uint32(np.uint32(b - a) ^ _rot(a, 6))
        a = np.uint32(a + c)
        c = np.uint32(np.uint32(c - b) ^ _rot(b, 8))
        b = np.uint32(b + a)
        a = np.uint32(np.uint32(a - c) ^ _rot(c, 16))
        c = np.uint32(c + b)
        b = np.uint32(np.uint32(b - a) ^ _rot(a, 19))
        a = np.uint32(a + c)
        c = np.uint32(np.uint32(c - b) ^ _rot(b, 4))
        b = np.uint32(b + a)
        at += 12
    c = np.uint32(np.uint32(c ^ b) - _rot(b, 14))
    a = np.uint32(np.uint32(a ^ c) - _rot(c, 11))
    b = np.uint32(np.uint32(b ^ a) - _rot(a, 25))
    c = np.uint32(np.uint32(c ^ b) - _rot(b, 16))
    a = np.uint32(np.uint32(a ^ c) - _rot(c, 4))
    b = np.uint32(np.uint32(b ^ a) - _rot(a, 14))
    return np.uint32(np.uint32(c ^ b) - _rot(b, 24))


@inlined
def bloom_position(h, bits):  # type: ignore[no-untyped-def]
    """Return the abs(Java int h % bits) of a uint32 hash, for kernels."""
    magnitude = h
    if h >> np.uint32(31):
        magnitude = np.uint32(np.uint32(0) - h)
    return np.uint32(magnitude % np.uint32(bits))
