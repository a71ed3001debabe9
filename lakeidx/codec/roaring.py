"""Roaring bitmaps of 32-bit row positions in the portable serialised form, run-optimised as Java writes them; by pyroaring.

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

There is no checksum. pyroaring refuses what is not well formed, but does not look at offsets: bytes are taken only when they are
what the bitmap is written as.

source   RoaringFormatSpec; org.roaringbitmap.RoaringBitmap.runOptimize + serialize, as Paimon 1.4.2 calls them
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.rows.rowbytes import RowBytes


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
    start, rest = cursor.pos, cursor.rest()
    try:
        # Any buffer will do.
        bitmap = BitMap.deserialize(rest)  # type: ignore[arg-type]
    except (ValueError, IndexError) as e:
        raise cursor.error("a roaring bitmap is damaged or cut off", at=start) from e
    written = bitmap.serialize()
    if rest[: len(written)] != written:
        raise cursor.error("a container of a roaring bitmap is not at its offset", at=start)
    if rows is not None and bitmap and bitmap.max() >= rows:
        raise cursor.error(f"position {bitmap.max()} in a bitmap over {rows} rows", at=start)
    cursor.seek(start + len(written))
    return bitmap


def group_positions(codes: npt.NDArray[np.int32], groups: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the rows of each code, ascending.

    codes    int32[n]: the group of each row, 0 .. groups - 1; negative = in none
    returns  positions uint32[rows with a group], and starts int64[groups + 1]: group g is
             ``positions[starts[g]:starts[g + 1]]``
    """
    order = np.argsort(codes, kind="stable")
    starts = codes[order].searchsorted(np.arange(groups + 1, dtype=np.int32))
    return order[starts[0] :].astype(np.uint32), starts - starts[0]


def serialize_groups(positions: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64]) -> RowBytes:
    """Return the serialised, run-optimised bitmap of each group of positions.

    positions  uint32[n], ascending without repetition inside each group
    starts     int64[g + 1]: group i is ``positions[starts[i]:starts[i + 1]]``; a group may be empty
    returns    g byte strings
    cost       a microsecond or two per group
    """
    return RowBytes.from_list([serialize_rows(positions[a:b]) for a, b in pairwise(starts.tolist())])


def serialize_rows(rows: npt.NDArray[np.uint32]) -> bytes:
    """Return the serialised, run-optimised bitmap of some rows, ascending."""
    bitmap = BitMap(rows)
    bitmap.run_optimize()
    return bitmap.serialize()


def serialize_slices(
    numbers: npt.NDArray[np.int64], bits: int, chosen: npt.NDArray[np.bool_] | None = None
) -> list[bytes]:
    """Return the bit slices: for each bit the serialised bitmap of the rows where it is set.

    numbers   int64[n], not negative where chosen
    bits      how many slices, from the lowest bit
    chosen    bool[n]: rows that take part; None = all
    cost      O(n) for each slice
    """
    members = numbers if chosen is None else np.where(chosen, numbers, 0)
    return [serialize_rows(np.flatnonzero((members >> bit) & 1).astype(np.uint32)) for bit in range(bits)]
