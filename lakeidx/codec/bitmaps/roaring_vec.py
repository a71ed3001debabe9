"""Many roaring bitmaps at once: positions grouped by value become the serialised bitmap of each value, without an
object per bitmap.

The slow twin is `lakeidx.codec.bitmaps.roaring.serialize`, which must give the same bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen, kernel
from lakeidx.codec.rows.rowbytes import RowBytes

_ARRAY_MAX = 4096
_BITSET_BYTES = 8192


def group_positions(codes: npt.NDArray[np.int32], groups: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the rows of each code, ascending (a counting sort).

    codes    int32[n]: the group of each row, 0 .. groups - 1; negative = in none
    returns  positions uint32[rows with a group], and starts int64[groups + 1]: group g is
             ``positions[starts[g]:starts[g + 1]]``
    cost     O(n + groups)
    """
    starts = np.zeros(groups + 1, np.int64)
    _count(frozen(codes), starts)
    np.cumsum(starts, out=starts)
    positions = np.empty(int(starts[-1]), np.uint32)
    _place(frozen(codes), starts[:-1].copy(), positions)
    return positions, starts


def serialize_groups(positions: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64]) -> RowBytes:
    """Return the serialised, run-optimised bitmap of each group of positions.

    positions  uint32[n], ascending without repetition inside each group
    starts     int64[g + 1]: group i is ``positions[starts[i]:starts[i + 1]]``; a group may be empty
    returns    g byte strings, each what `lakeidx.codec.bitmaps.roaring.serialize` gives
    cost       O(n), two passes
    """
    positions, starts = frozen(positions), frozen(starts)
    offsets = np.zeros(len(starts), np.int64)
    _sizes(positions, starts, offsets)
    np.cumsum(offsets, out=offsets)
    data = np.zeros(int(offsets[-1]), np.uint8)
    _write(positions, starts, frozen(offsets), data)
    return RowBytes(data, offsets)


def serialize_slices(
    numbers: npt.NDArray[np.int64], bits: int, chosen: npt.NDArray[np.bool_] | None = None
) -> list[bytes]:
    """Return the bit slices: for each bit the serialised bitmap of the rows where it is set.

    numbers   int64[n], not negative where chosen
    bits      how many slices, from the lowest bit
    chosen    bool[n]: rows that take part; None = all
    returns   `bits` bitmaps as `serialize_groups` gives them
    cost      O(n) for each slice; memory 4 n bytes
    """
    rows = None if chosen is None else np.flatnonzero(chosen).astype(np.uint32)
    members = frozen(numbers if rows is None else numbers[rows])
    picked = np.empty(len(members), np.uint32)
    slices = []
    for bit in range(bits):
        count = _rows_with_bit(members, bit, frozen(rows) if rows is not None else picked[:0], rows is not None, picked)
        slices.append(serialize_groups(picked[:count], np.array([0, count], np.int64))[0])
    return slices


@kernel
def _rows_with_bit(members, bit, rows, mapped, picked):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(members)):
        picked[count] = rows[i] if mapped else i
        count += (members[i] >> bit) & 1  # without a branch: the bits of a slice are as good as random
    return count


@kernel
def _count(codes, starts):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        if codes[i] >= 0:
            starts[codes[i] + 1] += 1


@kernel
def _place(codes, cursors, positions):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        code = codes[i]
        if code >= 0:
            positions[cursors[code]] = i
            cursors[code] += 1


@kernel
def _container(positions, start, end):  # type: ignore[no-untyped-def]
    """Return the end of the container that begins at `start`, its runs, and its bytes."""
    high = positions[start] >> 16
    stop = start + 1
    runs = 1
    while stop < end and positions[stop] >> 16 == high:
        if positions[stop] != positions[stop - 1] + 1:
            runs += 1
        stop += 1
    count = stop - start
    plain = 2 * count if count <= _ARRAY_MAX else _BITSET_BYTES
    as_runs = 2 + 4 * runs
    return stop, (runs if as_runs < plain else 0), (as_runs if as_runs < plain else plain)


@kernel
def _sizes(positions, starts, sizes):  # type: ignore[no-untyped-def]
    """Return sizes[g + 1] = bytes of group g."""
    for g in range(len(starts) - 1):
        at, end = starts[g], starts[g + 1]
        count, body, any_runs = 0, 0, False
        while at < end:
            at, runs, size = _container(positions, at, end)
            count += 1
            body += size
            any_runs |= runs > 0
        if any_runs:
            sizes[g + 1] = 4 + (count + 7) // 8 + 4 * count + (4 * count if count >= 4 else 0) + body
        else:
            sizes[g + 1] = 8 + 8 * count + body


@kernel
def _put16(out, at, value):  # type: ignore[no-untyped-def]
    out[at] = value & 0xFF
    out[at + 1] = (value >> 8) & 0xFF


@kernel
def _put32(out, at, value):  # type: ignore[no-untyped-def]
    _put16(out, at, value & 0xFFFF)
    _put16(out, at + 2, (value >> 16) & 0xFFFF)


@kernel
def _write(positions, starts, offsets, out):  # type: ignore[no-untyped-def]
    for g in range(len(starts) - 1):
        begin, end, base = starts[g], starts[g + 1], offsets[g]
        count, any_runs, at = 0, False, begin
        while at < end:
            at, runs, _ = _container(positions, at, end)
            count += 1
            any_runs |= runs > 0
        flags = base + 4
        if any_runs:
            _put32(out, base, 12347 | (count - 1) << 16)
            described = flags + (count + 7) // 8
            offset_table = described + 4 * count if count >= 4 else -1
            body = described + 4 * count + (4 * count if count >= 4 else 0)
        else:
            _put32(out, base, 12346)
            _put32(out, base + 4, count)
            described = base + 8
            offset_table = described + 4 * count
            body = offset_table + 4 * count
        at, index = begin, 0
        while at < end:
            stop, runs, size = _container(positions, at, end)
            _put16(out, described + 4 * index, positions[at] >> 16)
            _put16(out, described + 4 * index + 2, stop - at - 1)
            if offset_table >= 0:
                _put32(out, offset_table + 4 * index, body - base)
            if runs:
                out[flags + index // 8] |= 1 << (index % 8)
                _write_runs(positions, at, stop, runs, out, body)
            elif stop - at <= _ARRAY_MAX:
                for i in range(at, stop):
                    _put16(out, body + 2 * (i - at), positions[i] & 0xFFFF)
            else:
                for i in range(at, stop):
                    low = positions[i] & 0xFFFF
                    out[body + (low >> 3)] |= 1 << (low & 7)
            body += size
            at = stop
            index += 1


@kernel
def _write_runs(positions, at, stop, runs, out, body):  # type: ignore[no-untyped-def]
    _put16(out, body, runs)
    body += 2
    first = at
    for i in range(at + 1, stop + 1):
        if i == stop or positions[i] != positions[i - 1] + 1:
            _put16(out, body, positions[first] & 0xFFFF)
            _put16(out, body + 2, i - 1 - first)
            body += 4
            first = i
