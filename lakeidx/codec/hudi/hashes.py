"""Small hashes Hudi uses besides its filters: Java's string hash, XXH32; and Java's string order on UTF-8.

==============  =======================================================================================================
hash            definition
==============  =======================================================================================================
java string     h = 31 * h + c over UTF-16 code units, 32 bits, from 0
xxh32           XXH32 of the UTF-8 text, seed 0, signed 32 bits
==============  =======================================================================================================

Java orders strings by UTF-16 code unit, Parquet and Python by UTF-8 byte (= code point). They differ only where a
character from U+10000 (lead byte 0xF0..0xF4) meets one of U+E000..U+FFFF (0xEE, 0xEF); mapping those two lead bytes
above 0xF4 turns one order into the other.

source   java.lang.String#hashCode and #compareTo; org.apache.hudi.common.util.hash.HashID of Hudi 1.0.2;
         golden/hudi/consistent.json
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.rows.rowbytes import RowBytes

_JAVA_ORDER = np.arange(256, dtype=np.uint8)
_JAVA_ORDER[[0xEE, 0xEF]] = (0xFE, 0xFF)
#: UTF-8 text without bytes from here on sorts the same in Java and bytewise.
FIRST_MOVED_BYTE = 0xEE


def java_string_hash(text: str) -> int:
    """Return ``String.hashCode``: signed 32 bits."""
    h = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(raw), 2):
        h = (31 * h + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return signed32(h)


def signed32(h: int) -> int:
    """Convert an unsigned 32-bit number to Java's int."""
    return h - (1 << 32) if h >> 31 else h


def java_order(keys: RowBytes) -> RowBytes:
    """Return the strings whose bytewise order is the Java order of `keys` (UTF-8); the same object when both orders agree."""
    if not len(keys.data) or int(keys.data.max()) < FIRST_MOVED_BYTE:
        return keys
    return RowBytes(_JAVA_ORDER[keys.data], keys.offsets)


def xxh32_many(keys: RowBytes) -> npt.NDArray[np.int32]:
    """Return XXH32 with seed 0 of each UTF-8 string.

    returns  int32[n]
    """
    out = np.empty(len(keys), np.int32)
    _xxh32_many(frozen(keys.data), frozen(keys.offsets), out)
    return out


@inlined
def java_hash_span(data: Any, start: Any, end: Any) -> Any:
    """Return Java's string hash of UTF-8 ``data[start:end]``: uint32, for kernels; undefined for other bytes."""
    h = np.uint32(0)
    at = start
    while at < end:
        b = np.uint32(data[at])
        if b < 0x80:
            point = b
            at += 1
        elif b < 0xE0 and at + 1 < end:
            point = np.uint32((b & np.uint32(0x1F)) << np.uint32(6) | (np.uint32(data[at + 1]) & np.uint32(0x3F)))
            at += 2
        elif b < 0xF0 and at + 2 < end:
            point = np.uint32(
                (b & np.uint32(0x0F)) << np.uint32(12)
                | (np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(6)
                | (np.uint32(data[at + 2]) & np.uint32(0x3F))
            )
            at += 3
        elif at + 3 < end:
            point = np.uint32(
                (b & np.uint32(0x07)) << np.uint32(18)
                | (np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(12)
                | (np.uint32(data[at + 2]) & np.uint32(0x3F)) << np.uint32(6)
                | (np.uint32(data[at + 3]) & np.uint32(0x3F))
            )
            at += 4
        else:
            point = b
            at += 1
        if point >= 0x10000:
            rest = np.uint32(point - np.uint32(0x10000))
            h = np.uint32(np.uint32(h * np.uint32(31)) + np.uint32(0xD800) + (rest >> np.uint32(10)))
            point = np.uint32(np.uint32(0xDC00) + (rest & np.uint32(0x3FF)))
        h = np.uint32(np.uint32(h * np.uint32(31)) + point)
    return h


@inlined
def _u32(data: Any, at: Any) -> Any:
    return np.uint32(
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )


@inlined
def _rot(x: Any, k: Any) -> Any:
    return np.uint32((x << np.uint32(k)) | (x >> np.uint32(32 - k)))


@kernel
def _xxh32_many(data: Any, offsets: Any, out: Any) -> None:
    p1, p2, p3 = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D)
    p4, p5 = np.uint32(0x27D4EB2F), np.uint32(0x165667B1)
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        length = np.uint32(end - at)
        if end - at >= 16:
            v1, v2, v3, v4 = np.uint32(p1 + p2), p2, np.uint32(0), np.uint32(np.uint32(0) - p1)
            while at + 16 <= end:
                v1 = np.uint32(_rot(np.uint32(v1 + np.uint32(_u32(data, at) * p2)), 13) * p1)
                v2 = np.uint32(_rot(np.uint32(v2 + np.uint32(_u32(data, at + 4) * p2)), 13) * p1)
                v3 = np.uint32(_rot(np.uint32(v3 + np.uint32(_u32(data, at + 8) * p2)), 13) * p1)
                v4 = np.uint32(_rot(np.uint32(v4 + np.uint32(_u32(data, at + 12) * p2)), 13) * p1)
                at += 16
            h = np.uint32(_rot(v1, 1) + _rot(v2, 7) + _rot(v3, 12) + _rot(v4, 18))
        else:
            h = p5
        h = np.uint32(h + length)
        while at + 4 <= end:
            h = np.uint32(_rot(np.uint32(h + np.uint32(_u32(data, at) * p3)), 17) * p4)
            at += 4
        while at < end:
            h = np.uint32(_rot(np.uint32(h + np.uint32(np.uint32(data[at]) * p5)), 11) * p1)
            at += 1
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(15))) * p2)
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * p3)
        out[i] = np.int32(np.uint32(h ^ (h >> np.uint32(16))))
