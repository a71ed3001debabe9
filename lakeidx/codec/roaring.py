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
import numpy.typing as npt
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor

_COOKIE_RUNS = 12347
_COOKIE_PLAIN = 12346
_OFFSETS_FROM = 4
_ARRAY_MAX = 4096
_BITSET_BYTES = 8192
_CONTAINERS_MAX = 65536


def serialize(bitmap: BitMap) -> bytes:
    """The bitmap's bytes, run-optimised; the bitmap itself keeps its layout."""
    copy = bitmap.copy()
    copy.run_optimize()
    return copy.serialize()


def deserialize(data: bytes | memoryview, *, path: str | None = None, base: int = 0, rows: int | None = None) -> BitMap:
    """A bitmap that takes all of `data`.

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
    """The bitmap that starts at the cursor, which moves behind it.

    rows     when given, positions must be below it
    errors   CorruptFileError when the bytes are no well-formed bitmap
    """
    start = cursor.pos
    _skip_bitmap(cursor)
    end = cursor.pos
    cursor.seek(start)
    bitmap: BitMap = BitMap.deserialize(cursor.bytes(end - start))
    if rows is not None and bitmap and bitmap.max() >= rows:
        raise cursor.error(f"position {bitmap.max()} in a bitmap over {rows} rows", at=start)
    return bitmap


def _skip_bitmap(cursor: Cursor) -> None:
    """Move behind the bitmap at the cursor, checking all of it."""
    start = cursor.pos
    cookie = cursor.i32le() & 0xFFFFFFFF
    has_runs = cookie & 0xFFFF == _COOKIE_RUNS
    if has_runs:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(_array(cursor, -(-count // 8), np.uint8), bitorder="little")
        if flags[count:].any():
            raise cursor.error("run flags for containers that do not exist", at=start + 4)
    elif cookie == _COOKIE_PLAIN:
        count = cursor.i32le()
        if not 0 <= count <= _CONTAINERS_MAX:
            raise cursor.error(f"a roaring bitmap with {count} containers", at=start + 4)
        flags = np.zeros(count, np.uint8)
    else:
        raise cursor.error(f"expected a roaring bitmap, found cookie {cookie:#010x}", at=start)
    described = cursor.pos
    descriptions = _array(cursor, 4 * count, np.uint16)
    highs, sizes = descriptions[0::2].astype(np.int64), descriptions[1::2].astype(np.int64) + 1
    if (np.diff(highs) <= 0).any():
        raise cursor.error("containers of a roaring bitmap out of order", at=described)
    has_offsets = not has_runs or count >= _OFFSETS_FROM
    offsets = _array(cursor, 4 * count, np.uint32).tolist() if has_offsets else [None] * count
    for offset, size, is_run in zip(offsets, sizes.tolist(), flags[:count].tolist(), strict=True):
        at = cursor.pos
        if offset is not None and offset != at - start:
            raise cursor.error(f"a container stands at {at - start}, its offset says {offset}", at=at)
        found = _check_runs(cursor) if is_run else _check_values(cursor, size)
        if found != size:
            raise cursor.error(f"a container holds {found} positions, its description says {size}", at=at)


def _array(cursor: Cursor, size: int, dtype: type[np.unsignedinteger]) -> npt.NDArray[Any]:
    return np.frombuffer(cursor.view(size), np.dtype(dtype).newbyteorder("<"))


def _check_runs(cursor: Cursor) -> int:
    at = cursor.pos
    count = int(_array(cursor, 2, np.uint16)[0])
    runs = _array(cursor, 4 * count, np.uint16).astype(np.int64)
    first, last = runs[0::2], runs[0::2] + runs[1::2]
    if count == 0 or last[-1] > 0xFFFF or (first[1:] <= last[:-1]).any():
        raise cursor.error("runs of a roaring container overlap", at=at)
    return int((last - first + 1).sum())


def _check_values(cursor: Cursor, size: int) -> int:
    at = cursor.pos
    if size > _ARRAY_MAX:
        words = _array(cursor, _BITSET_BYTES, np.uint64)
        return int(np.bitwise_count(words).sum())
    values = _array(cursor, 2 * size, np.uint16)
    if (values[1:] <= values[:-1]).any():
        raise cursor.error("positions of a roaring container out of order", at=at)
    return size
