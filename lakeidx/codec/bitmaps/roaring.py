"""Roaring bitmaps of 32-bit row positions in the portable serialised form, run-optimised as Java writes them.

=================  ==================================================================================================
piece              bytes (all **little endian**)
=================  ==================================================================================================
cookie             with run containers: u32 ``12347 | (n - 1) << 16``, then ceil(n / 8) bytes of flags (bit i = run);
                   without: u32 12346, u32 n
descriptions       n of (u16 high half of the positions, u16 positions - 1)
offsets            n of u32 from the start of the bitmap; left out with run containers when n < 4
array container    up to 4,096 positions: u16 low halves, ascending
bitset container   more: 8,192 bytes, bit ``low`` counted from the lowest bit of the first byte
run container      u16 runs, then runs of (u16 first, u16 length - 1); chosen when it takes fewer bytes
=================  ==================================================================================================

There is no checksum. A reader here checks everything the form promises: order, counts, offsets, ranges.

source   RoaringFormatSpec; org.roaringbitmap.RoaringBitmap.runOptimize + serialize, as Paimon 1.4.2 calls them
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.jit import frozen, kernel, load_u32, load_u64

_COOKIE_RUNS = 12347
_COOKIE_PLAIN = 12346
_OFFSETS_FROM = 4
_ARRAY_MAX = 4096
_BITSET_BYTES = 8192
_CONTAINERS_MAX = 65536


def serialize(bitmap: BitMap) -> bytes:
    """Return the bitmap's bytes, run-optimised; the bitmap itself keeps its layout."""
    copy = bitmap.copy()
    copy.run_optimize()
    return copy.serialize()


def deserialize(data: bytes | memoryview, *, path: str | None = None, base: int = 0, rows: int | None = None) -> BitMap:
    """Decode a bitmap that uses all of `data`.

    path, base   named in errors: the file, and where `data` starts in it
    rows         when given, positions must be below it
    errors       CorruptFileError unless the bytes are one whole well-formed bitmap
    """
    cursor = Cursor(data, path, base=base)
    bitmap = read_bitmap(cursor, rows=rows)
    if cursor.remaining:
        raise cursor.error(f"{cursor.remaining} bytes after the end of a roaring bitmap")
    return bitmap


def read_bitmap(cursor: Cursor, *, rows: int | None = None) -> BitMap:
    """Read the bitmap that starts at the cursor, and move the cursor after it.

    rows     when given, positions must be below it
    errors   CorruptFileError when the bytes are no well-formed bitmap
    """
    start = cursor.pos
    rest = cursor.view(cursor.remaining)
    size, fault, at = _check(frozen(np.frombuffer(rest, np.uint8)))
    if fault:
        raise cursor.error(_FAULTS[fault], at=start + at)
    bitmap: BitMap = BitMap.deserialize(rest[:size].tobytes())
    if rows is not None and bitmap and bitmap.max() >= rows:
        raise cursor.error(f"position {bitmap.max()} in a bitmap over {rows} rows", at=start)
    cursor.seek(start + size)
    return bitmap


_FAULTS = {
    1: "a roaring bitmap is cut off",
    2: "expected the cookie of a roaring bitmap",
    3: "a roaring bitmap of more than 65536 containers",
    4: "run flags for containers that do not exist",
    5: "containers of a roaring bitmap out of order",
    6: "a container is not at its offset",
    7: "runs of a roaring container overlap",
    8: "positions of a roaring container out of order",
    9: "a container's number of positions differs from its header",
}


@kernel
def _check(data: Any) -> Any:
    """Return the size of the bitmap at the start of the data, a fault (0: none), and where it is."""
    end = len(data)
    if end < 8:
        return 0, 1, 0
    cookie = load_u32(data, 0)
    has_runs = cookie & np.uint32(0xFFFF) == np.uint32(_COOKIE_RUNS)
    flags = 4
    at: Any = 4
    if has_runs:
        count = np.int64(cookie >> np.uint32(16)) + 1
        at += (count + 7) // 8
        if at > end:
            return 0, 1, 4
        if count % 8 and data[at - 1] >> np.uint8(count % 8):
            return 0, 4, at - 1
    elif cookie == np.uint32(_COOKIE_PLAIN):
        count = np.int64(load_u32(data, 4))
        at = 8
        if count > _CONTAINERS_MAX:
            return 0, 3, 4
    else:
        return 0, 2, 0
    described = at
    offsets = at + 4 * count
    at = offsets + (4 * count if not has_runs or count >= _OFFSETS_FROM else 0)
    checks_offsets = at > offsets
    if at > end:
        return 0, 1, described
    before: Any = -1
    for i in range(count):
        description = np.int64(load_u32(data, described + 4 * i))
        high, size = description & 0xFFFF, (description >> 16) + 1
        if high <= before:
            return 0, 5, described + 4 * i
        before = high
        if checks_offsets and np.int64(load_u32(data, offsets + 4 * i)) != at:
            return 0, 6, offsets + 4 * i
        if has_runs and (data[flags + i // 8] >> np.uint8(i % 8)) & np.uint8(1):
            at, found, fault = _check_runs(data, at, end)
        elif size > _ARRAY_MAX:
            at, found, fault = _check_bitset(data, at, end)
        else:
            at, found, fault = _check_array(data, at, end, size)
        if fault:
            return 0, fault, at
        if found != size:
            return 0, 9, described + 4 * i
    return at, 0, 0


@kernel
def _load16(data: Any, at: Any) -> Any:
    return np.int64(data[at]) | (np.int64(data[at + 1]) << 8)


@kernel
def _check_runs(data: Any, at: Any, end: Any) -> Any:
    if at + 2 > end:
        return at, 0, 1
    count = _load16(data, at)
    start = at
    at += 2
    if count == 0 or at + 4 * count > end:
        return start, 0, 7 if count == 0 else 1
    found: Any = 0
    last: Any = -1
    for _ in range(count):
        first, more = _load16(data, at), _load16(data, at + 2)
        if first <= last or first + more > 0xFFFF:
            return at, 0, 7
        last = first + more
        found += more + 1
        at += 4
    return at, found, 0


@kernel
def _check_bitset(data: Any, at: Any, end: Any) -> Any:
    if at + _BITSET_BYTES > end:
        return at, 0, 1
    found: Any = 0
    for i in range(at, at + _BITSET_BYTES, 8):
        # The classic count of set bits, for whole words.
        x = load_u64(data, i)
        x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        found += np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return at + _BITSET_BYTES, found, 0


@kernel
def _check_array(data: Any, at: Any, end: Any, size: Any) -> Any:
    if at + 2 * size > end:
        return at, 0, 1
    last: Any = -1
    for i in range(at, at + 2 * size, 2):
        value = _load16(data, i)
        if value <= last:
            return i, 0, 8
        last = value
    return at + 2 * size, size, 0
