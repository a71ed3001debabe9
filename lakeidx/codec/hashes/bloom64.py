"""Bloom filter over 64-bit hashes: sizing, bit positions, and setting them for whole columns.

Bit i of the filter is bit ``i % 8`` (counted from the lowest) of byte ``i // 8``. Position j = 1..k of a hash H is, in
32-bit arithmetic that wraps: ``c = low(H) + j * high(H)``, complemented when negative, modulo the number of bits.

source   org.apache.paimon.utils.BloomFilter64, release 1.4.2
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen, kernel
from lakeidx.errors import InvalidInputError

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
