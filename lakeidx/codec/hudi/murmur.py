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

#: Hash type codes in a filter's header.
JENKINS, MURMUR = 0, 1


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
