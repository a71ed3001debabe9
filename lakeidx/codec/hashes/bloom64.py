"""Bloom filter over 64-bit hashes of whole columns: Wang's integer mix and xxHash64, sizing, bit positions, and setting them.

Bit i of the filter is bit ``i % 8`` (counted from the lowest) of byte ``i // 8``. Position j = 1..k of a hash H is, in
32-bit arithmetic that wraps: ``c = low(H) + j * high(H)``, complemented when negative, modulo the number of bits.

source   org.apache.paimon.utils.BloomFilter64; org.apache.paimon.fileindex.bloomfilter.FastHash (T. Wang's
         64-bit mix; xxHash64 with seed 0), release 1.4.2
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel, load_u32, load_u64
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError

_P1 = np.uint64(11400714785074694791)
_P2 = np.uint64(14029467366897019727)
_P3 = np.uint64(1609587929392839161)
_P4 = np.uint64(9650029242287828579)
_P5 = np.uint64(2870177450012600261)


def hash_longs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return Wang's mix of each value.

    values   int64[n]
    returns  int64[n]
    cost     about a nanosecond a value
    """
    out = np.empty(len(values), np.int64)
    _hash_longs(frozen(values), out)
    return out


def bloom_hash_many(rows: RowBytes) -> npt.NDArray[np.int64]:
    """Return xxHash64 (seed 0) of each byte string.

    returns  int64[n]
    cost     about ten nanoseconds for a 16-byte string
    """
    out = np.empty(len(rows), np.int64)
    _hash_bytes(frozen(rows.data), frozen(rows.offsets), out)
    return out


@kernel
def _hash_longs(values, out):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        x = values[i]
        x = ~x + (x << 21)
        x ^= x >> 24
        x = x + (x << 3) + (x << 8)
        x ^= x >> 14
        x = x + (x << 2) + (x << 4)
        x ^= x >> 28
        out[i] = x + (x << 31)


@kernel
def _rotate(x, bits):  # type: ignore[no-untyped-def]
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@kernel
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotate(lane + word * _P2, 31) * _P1


@kernel
def _hash_bytes(data, offsets, out):  # type: ignore[no-untyped-def]
    for i in range(len(offsets) - 1):
        at, end = offsets[i], offsets[i + 1]
        length = end - at
        if length >= 32:
            v1, v2, v3, v4 = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
            while at + 32 <= end:
                v1 = _round(v1, load_u64(data, at))
                v2 = _round(v2, load_u64(data, at + 8))
                v3 = _round(v3, load_u64(data, at + 16))
                v4 = _round(v4, load_u64(data, at + 24))
                at += 32
            h = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
            for v in (v1, v2, v3, v4):
                h = (h ^ _round(np.uint64(0), v)) * _P1 + _P4
        else:
            h = _P5
        h += np.uint64(length)
        while at + 8 <= end:
            h = _rotate(h ^ _round(np.uint64(0), load_u64(data, at)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= end:
            h = _rotate(h ^ (np.uint64(load_u32(data, at)) * _P1), 23) * _P2 + _P3
            at += 4
        while at < end:
            h = _rotate(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
            at += 1
        h = (h ^ (h >> np.uint64(33))) * _P2
        h = (h ^ (h >> np.uint64(29))) * _P3
        out[i] = np.int64(h ^ (h >> np.uint64(32)))


_MAX_BITS = (1 << 31) - 8
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def bloom_size(items: int, fpp: float) -> tuple[int, int]:
    """Return the bits and hash functions for a number of distinct values and a rate of false positives.

    items    expected distinct values, at least 1
    fpp      wanted rate, between 0 and 1
    errors   InvalidInputError for values out of range, or a filter of 2^31 bits and more
    """
    if items < 1:
        raise InvalidInputError(f"items must be at least 1, not {items}")
    if not 0 < fpp < 1:
        raise InvalidInputError(f"fpp must be between 0 and 1, not {fpp}")
    wanted = -items * math.log(fpp) / (math.log(2) * math.log(2))
    if wanted > _MAX_BITS - 8:
        raise InvalidInputError(f"a bloom filter for {items} items at fpp {fpp} takes more than 256 MB")
    bits = int(wanted)
    bits += 8 - bits % 8
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


def set_hashes(filter_bits: npt.NDArray[np.uint8], hashes: npt.NDArray[np.int64], functions: int) -> None:
    """Add hashes to a filter, in place.

    filter_bits  uint8[bits / 8], bits < 2^31
    hashes       int64[n]
    """
    _set(filter_bits, frozen(hashes), functions)


def may_contain_any(filter_bits: memoryview, hashes: npt.NDArray[np.int64], functions: int) -> bool:
    """Return False when surely none of the hashes was ever added."""
    view = np.frombuffer(filter_bits, np.uint8)
    left = hashes.view(np.uint64)
    for j in range(1, functions + 1):
        if not len(left):
            break
        c = ((left & _LOW) + np.uint64(j) * (left >> _HALF)) & _LOW
        positions = (np.where(c >> np.uint64(31), ~c & _LOW, c) % np.uint64(8 * len(view))).astype(np.int64)
        left = left[(view[positions >> 3] >> (positions & 7).astype(np.uint8) & 1).astype(np.bool_)]
    return len(left) > 0


@kernel
def _set(filter_bits, hashes, functions):  # type: ignore[no-untyped-def]
    bits = np.uint32(8 * len(filter_bits))
    for i in range(len(hashes)):
        low = np.uint32(hashes[i] & 0xFFFFFFFF)
        high = np.uint32((hashes[i] >> 32) & 0xFFFFFFFF)
        c = low
        for _ in range(functions):
            c = np.uint32(c + high)
            position = (~c if c >> np.uint32(31) else c) % bits
            filter_bits[position >> np.uint32(3)] |= np.uint8(1) << np.uint8(position & np.uint32(7))
