"""Sorting rows that are in no order: key bits packed into words.

The key fields are shrunk to the bits in which the batch differs (minimum subtracted, constant bits dropped) and packed, with the
row number below them, into one 64-bit word per row; sorting those words is sorting the rows, stably. What does not fit one word
(long strings, wide keys) is only examined for rows that are still tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.order.kernels import gather_bits, radix_sort, string_words
from lakeidx.codec.order.normalized_key import OrderField, WordField

_Words = npt.NDArray[np.uint64]
# Key bits sorted at once beyond those that number the rows: with random keys one pair in a million rows stays tied.
_SPARE_BITS = 20
_GCD_SAMPLE_ROWS = 256


class _Bits:
    """The key as a stream of shrunk words, most significant first, for the rows that are still of interest."""

    def __init__(self, fields: Sequence[OrderField]) -> None:
        self._fields = list(fields)
        self._skip = 0
        self._rest: tuple[_Words, int] | None = None

    def next(self, rows: npt.NDArray[np.int64] | None, room: int) -> tuple[_Words, int] | None:
        """Return at most `room` more bits of the given rows (None = all), or None at the end of the key."""
        piece, self._rest = self._rest, None
        if piece is None:
            numeric = bool(self._fields) and isinstance(self._fields[0], WordField)
            values = self._next_values(rows)
            if values is None:
                return None
            piece = _shrink(values, numeric=numeric)
        values, bits = piece
        if bits > room:
            self._rest = (values & np.uint64((1 << (bits - room)) - 1), bits - room)
            values, bits = values >> np.uint64(bits - room), room
        return values, bits

    def keep(self, chosen: Any) -> None:
        """Drop all rows but the `chosen` ones (an index into them)."""
        if self._rest is not None:
            self._rest = _shrink(self._rest[0][chosen], numeric=False)

    def _next_values(self, rows: npt.NDArray[np.int64] | None) -> _Words | None:
        if not self._fields:
            return None
        f = self._fields[0]
        if isinstance(f, WordField):
            self._fields.pop(0)
            return f.values if rows is None else f.values[rows]
        lengths = f.lengths if rows is None else f.lengths[rows]
        if self._skip < int(lengths.max(initial=0)):
            out = np.empty(len(lengths), np.uint64)
            every = rows if rows is not None else np.arange(len(lengths))
            string_words(f.data, f.starts, f.lengths, frozen(every), self._skip, out)
            self._skip += 8
            return out
        # All bytes have been seen; only zero bytes at the end can still tell two strings apart.
        self._fields.pop(0)
        self._skip = 0
        return lengths.astype(np.uint64)


def _shrink(values: _Words, *, numeric: bool) -> tuple[_Words, int]:
    """Pack the same order into fewer bits: (words, bits).

    numeric   subtract the minimum and divide by a common factor first; text keeps its bytes apart instead, so that
              bits they all share can go
    """
    if len(values) == 0:
        return values, 0
    if numeric:
        values = _divided(values - values.min())
        varying = int(np.bitwise_or.reduce(values))
    else:
        varying = int(np.bitwise_or.reduce(values ^ values[0]))
    runs = []
    at, bits = 0, 0
    while varying >> at:
        at += (varying >> at & -(varying >> at)).bit_length() - 1
        ones = varying >> at
        length = (~ones & (ones + 1)).bit_length() - 1
        runs.append((at, (1 << length) - 1, bits))
        at += length
        bits += length
    if not runs or (len(runs) == 1 and runs[0][0] == 0 and numeric):
        return values, bits
    out = np.empty(len(values), np.uint64)
    gather_bits(frozen(values), frozen(np.array(runs, np.uint64)), out)
    return out, bits


def _divided(values: _Words) -> _Words:
    """Return the values without their greatest common divisor, when a sample has one (times in coarse steps)."""
    step = np.gcd.reduce(values[:: len(values) // _GCD_SAMPLE_ROWS + 1])
    if step > 1:
        quotients = values // step
        if np.array_equal(quotients * step, values):
            found: _Words = quotients
            return found
    return values


def packed_argsort(fields: Sequence[OrderField], n: int) -> npt.NDArray[np.int64]:
    """Return the permutation that puts rows in key order, int64[n]; equal keys stay in row order."""
    bits = _Bits(fields)
    order = np.arange(n, dtype=np.int64)
    # The rows still tied, as they are in `order` now, where that is, and the rank of each row's group of equals.
    rows: npt.NDArray[np.int64] | None = None
    places: npt.NDArray[np.int64] | None = None
    groups, group_bits = np.zeros(n, np.uint64), 0
    while True:
        m = len(groups)
        index_bits = (m - 1).bit_length()
        packed, used, ended = _fill(bits, rows, groups, group_bits, min(64 - index_bits, index_bits + _SPARE_BITS))
        if used == group_bits:
            return order
        packed = packed << np.uint64(index_bits)
        packed |= np.arange(m, dtype=np.uint64)
        other = np.empty_like(packed)
        if radix_sort(packed, other, index_bits, used):
            packed = other
        chosen = (packed & np.uint64((1 << index_bits) - 1)).view(np.int64)
        sorted_rows = chosen if rows is None else rows[chosen]
        if places is None:
            order = sorted_rows
        else:
            order[places] = sorted_rows
        if ended:
            return order
        packed >>= np.uint64(index_bits)
        same = packed[1:] == packed[:-1]
        if not same.any():
            return order
        tied = np.zeros(m, np.bool_)
        tied[1:] = same
        starts = np.zeros(m, np.bool_)
        starts[:-1] = same & ~tied[:-1]
        tied |= starts
        bits.keep(chosen[tied])
        rows = sorted_rows[tied]
        places = np.flatnonzero(tied) if places is None else places[tied]
        groups = (np.cumsum(starts[tied]) - 1).astype(np.uint64)
        group_bits = int(groups[-1]).bit_length()


def _fill(
    bits: _Bits, rows: npt.NDArray[np.int64] | None, groups: _Words, group_bits: int, room: int
) -> tuple[_Words, int, bool]:
    """Group ranks with as many key bits below them as there is room for: (words, bits used, key at its end)."""
    packed, used = groups, group_bits
    while used < room:
        piece = bits.next(rows, room - used)
        if piece is None:
            return packed, used, True
        values, count = piece
        if count:
            packed = packed << np.uint64(count) | values
            used += count
    return packed, used, False
