"""The Bloom filter of lookup stores: sizing as in Paimon, kernels that fill and probe it.

For n expected entries and a false positive rate p: ``bits = int(-n ln p / ln(2)^2)``, stored as ``ceil(bits / 8)`` bytes, with
``k = max(1, round(8 * bytes / n * ln 2))`` probes. Probe i = 1..k of a key with byte-string hash h looks at bit
``c mod (8 * bytes)``, lowest bit of a byte first, where ``c = h + i * (h >>> 16)`` in 32 bits and is complemented when negative.

source   org.apache.paimon.utils.BloomFilter, releases 0.9.0 and 1.4.2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.hashes.murmur import finish, mix
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import load_i64, load_u8, load_u32, store_u8
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.packed import addresses_of, contiguous

_MAX_INT = 2147483647


@dataclass(frozen=True, slots=True)
class BloomShape:
    """Size of a filter.

    entries     expected entries, > 0
    byte_size   bytes of the bit set
    """

    entries: int
    byte_size: int

    @classmethod
    def for_rate(cls, entries: int, fpp: float) -> BloomShape:
        """Return the shape Paimon picks for an expected number of entries and a false positive rate.

        errors   InvalidInputError unless entries > 0 and 0 < fpp < 1
        """
        if entries <= 0:
            raise InvalidInputError(f"a bloom filter expects at least one entry, not {entries}")
        if not 0 < fpp < 1:
            raise InvalidInputError(f"the false positive rate must be between 0 and 1, not {fpp}")
        bits = int(-entries * math.log(fpp) / (math.log(2) * math.log(2)))
        return cls(entries, -(-min(bits, _MAX_INT) // 8))

    @property
    def bits(self) -> int:
        """Bits that probes can hit."""
        return 8 * self.byte_size

    @property
    def probes(self) -> int:
        """Number of probes k. Java rounds halves up, in double."""
        return max(1, math.floor(self.bits / self.entries * math.log(2) + 0.5))


class LookupBloom:
    """A filter being filled or probed.

    bits   uint8[shape.byte_size], owned by this object or a view of a file
    """

    def __init__(self, shape: BloomShape, bits: npt.NDArray[np.uint8] | None = None) -> None:
        self.shape = shape
        self.bits = np.zeros(shape.byte_size, np.uint8) if bits is None else bits
        if self.bits.shape != (shape.byte_size,):
            raise InvalidInputError(f"a filter of this shape has {shape.byte_size} bytes, not {self.bits.shape}")

    def add(self, keys: RowBytes) -> None:
        """Add keys, in one pass."""
        data, offsets = addresses_of(contiguous(keys))
        _add_many(data, offsets, len(keys), self.bits.ctypes.data, self.shape.bits, self.shape.probes)


@inlined
def hash_at(address: Any, length: Any) -> Any:
    """Return uint32 byte-string hash of the bytes at an address, for kernels."""
    h = np.uint32(42)
    at = 0
    while at + 4 <= length:
        h = mix(h, load_u32(address + at))
        at += 4
    while at < length:
        h = mix(h, np.uint32(np.int32(np.int8(load_u8(address + at)))))
        at += 1
    return finish(np.uint32(h ^ np.uint32(length)))


@inlined
def _bit(h: Any, i: Any, bits: Any) -> Any:
    combined = np.uint32(h + np.uint32(i) * (h >> np.uint32(16)))
    # Complement when the sign bit is set, without a branch.
    combined ^= np.uint32(np.int32(combined) >> np.int32(31))
    return np.int64(combined % np.uint32(bits))


@inlined
def bloom_add(h: Any, filter_address: Any, bits: Any, probes: Any) -> Any:
    """Set the bits of a hash, for kernels."""
    for i in range(1, probes + 1):
        bit = _bit(h, i, bits)
        at = filter_address + (bit >> 3)
        store_u8(at, load_u8(at) | (1 << (bit & 7)))


@inlined
def bloom_has(h: Any, filter_address: Any, bits: Any, probes: Any) -> Any:
    """Return False when a bit of the hash is not set, for kernels."""
    for i in range(1, probes + 1):
        bit = _bit(h, i, bits)
        if not load_u8(filter_address + (bit >> 3)) >> (bit & 7) & 1:
            return False
    return True


@inlined
def _is_set(h: Any, i: Any, filter_address: Any, bits: Any) -> Any:
    bit = _bit(h, i, bits)
    return load_u8(filter_address + (bit >> 3)) >> (bit & 7) & 1


@kernel
def hash_and_filter(
    keys: Any, offsets: Any, first: Any, count: Any, filter_address: Any, bits: Any, probes: Any, hashes: Any, passing: Any
) -> Any:  # fmt: skip
    """Hash keys first, first + 1, ... and pick those that may be in the filter (all, when its address is 0).

    Step by step over the whole group, without a branch that depends on a key: a wrongly predicted one would throw away the
    work on the keys behind it.
    hashes    uint32[count]
    passing   int64[count], takes the numbers (0 .. count - 1) that pass
    returns   how many pass
    """
    for j in range(count):
        start = load_i64(offsets + 8 * (first + j))
        hashes[j] = hash_at(keys + start, load_i64(offsets + 8 * (first + j) + 8) - start)
        passing[j] = j
    if filter_address == 0:
        return count
    n, i = count, 1
    while i <= probes:
        kept = 0
        for at in range(n):
            j = passing[at]
            # Two probes at once: three of four absent keys end here.
            bit = _is_set(hashes[j], i, filter_address, bits) & _is_set(
                hashes[j], min(i + 1, probes), filter_address, bits
            )
            passing[kept] = j
            kept += bit
        n, i = kept, i + 2
    return n


@kernel
def _add_many(data: Any, offsets: Any, n: Any, filter_address: Any, bits: Any, probes: Any) -> Any:
    if bits == 0:
        return
    for i in range(n):
        start, end = load_i64(offsets + 8 * i), load_i64(offsets + 8 * i + 8)
        bloom_add(hash_at(data + start, end - start), filter_address, bits, probes)
