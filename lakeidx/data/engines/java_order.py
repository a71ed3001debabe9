"""The iteration order of Java's HashMap and HashSet.

Some aggregate functions build their result from a ``java.util.HashMap``; its order shows in arrays and maps. It is the
order of bins (spread hash modulo capacity), inside a bin the order of insertion.

source   java.util.HashMap (initial capacity 16, load factor 0.75), hashCode of Integer, Long, Float, Double, Boolean,
         BigDecimal; org.apache.paimon.data.{BinaryString, Timestamp, BinaryRow}#hashCode, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from lakeidx.codec.hashes.murmur import hash_bytes
from lakeidx.codec.values import unscaled_of
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_T = TypeVar("_T")
_MASK = 0xFFFFFFFF


def java_key_order(items: Iterable[_T], hash_code: Callable[[_T], int]) -> list[_T]:
    """Return the items in the order of a HashMap or HashSet they were `put` into.

    items       distinct keys, in order of insertion
    hash_code   Java's hashCode of an item, any integer of the same low 32 bits
    """
    listed = list(items)
    capacity = 16
    while len(listed) > _threshold(capacity):
        capacity *= 2
    return _by_bin(listed, hash_code, capacity)


def java_order_computed(calls: Iterable[_T], hash_code: Callable[[_T], int]) -> list[_T]:
    """Return the distinct items in the order of a HashMap filled by `computeIfAbsent`.

    That puts a new entry at the head of its bin, and grows the table at the beginning of a call, not after an insertion.

    calls   the key of every call, in order, repetitions included; hashable
    """
    capacity = 16
    seen: dict[_T, None] = {}
    for item in calls:
        if len(seen) > _threshold(capacity):
            capacity *= 2
        seen[item] = None
    return _by_bin(list(reversed(seen)), hash_code, capacity)


def _threshold(capacity: int) -> int:
    return capacity * 3 // 4


def _by_bin(items: list[_T], hash_code: Callable[[_T], int], capacity: int) -> list[_T]:
    def bin_of(item: _T) -> int:
        h = hash_code(item) & _MASK
        return (h ^ h >> 16) & (capacity - 1)

    return sorted(items, key=bin_of)


def hash_code(value: Any, t: DataType) -> int:
    """Return Java's hashCode of an atomic internal value (low 32 bits); 0 for null.

    Byte arrays and nested values have no hash of their content in Java: they hash to 0 here, so that they are in order
    of insertion.
    """
    if value is None:
        return 0
    if t.root in STRING_ROOTS:
        return hash_bytes(value.encode("utf-8"))
    if t.root is Root.BOOLEAN:
        return 1231 if value else 1237
    if t.root is Root.BIGINT:
        return _fold(value)
    if t.root is Root.DOUBLE:
        return _fold(_float_bits(value, "<d", "<q", 0x7FF8000000000000))
    if t.root is Root.FLOAT:
        return _float_bits(value, "<f", "<i", 0x7FC00000)
    if t.root is Root.DECIMAL:
        return _big_decimal_hash(unscaled_of(value, t), t.scale)
    if t.root in TIMESTAMP_ROOTS:
        return int(31 * _fold(value[0]) + value[1])
    if t.root in BYTES_ROOTS or t.is_nested or t.root is Root.VARIANT:
        return 0
    return int(value)


def identity(value: Any, t: DataType) -> Hashable:
    """Make a hashable stand-in that is equal exactly when Java's ``equals`` holds: floats by their bits, the rest by value.

    Byte arrays compare by content (Java's HashSet compares them by identity, so it never finds two equal).
    """
    if value is None:
        return None
    if t.root is Root.DOUBLE:
        return _float_bits(value, "<d", "<q", 0x7FF8000000000000)
    if t.root is Root.FLOAT:
        return _float_bits(value, "<f", "<i", 0x7FC00000)
    if t.root is Root.ARRAY and t.element is not None:
        return tuple(identity(v, t.element) for v in value)
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        return frozenset((identity(k, t.key), identity(v, t.element)) for k, v in value)
    if t.root is Root.ROW:
        return tuple(identity(v, f.type) for v, f in zip(value, t.fields, strict=True))
    if t.root is Root.MULTISET and t.element is not None:
        return frozenset((identity(k, t.element), n) for k, n in value)
    out: Hashable = value
    return out


def _float_bits(value: float, pack: str, unpack: str, nan: int) -> int:
    if value != value:
        return nan
    return int(struct.unpack(unpack, struct.pack(pack, value))[0])


def _fold(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & _MASK


def _big_decimal_hash(unscaled: int, scale: int) -> int:
    magnitude, h = abs(unscaled), 0
    words = []
    while magnitude:
        words.append(magnitude & _MASK)
        magnitude >>= 32
    for word in reversed(words):
        h = (31 * h + word) & _MASK
    return 31 * (-h if unscaled < 0 else h) + scale
