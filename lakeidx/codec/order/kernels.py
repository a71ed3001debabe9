"""Numba kernels of key order: words of strings, comparison of neighbours, sorting of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, kernel, load_u64, store_u64

# Escapes of byte strings inside a longer key: 00 -> 01 01, 01 -> 01 02, and 00 ends the string.
_ESCAPE = 1
# 1,024 counters of a digit and the lines they write to stay in the first two caches.
_DIGIT_BITS = 10


@helper
def _swapped(word: Any) -> Any:
    """Return the bytes of a u64 in reverse, so that unsigned order is the order of the bytes."""
    word = (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (word >> np.uint64(8)) & np.uint64(
        0x00FF00FF00FF00FF
    )
    word = (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (word >> np.uint64(16)) & np.uint64(
        0x0000FFFF0000FFFF
    )
    return word << np.uint64(32) | word >> np.uint64(32)


@helper
def _big_endian_at(data: Any, at: Any, end: Any) -> Any:
    """Return up to 8 bytes of ``data[at:end]`` as a big-endian u64, zero-filled at the end."""
    if at + 8 <= end:
        return _swapped(load_u64(data, at))
    word = np.uint64(0)
    for b in range(end - at):
        word |= np.uint64(data[at + b]) << np.uint64(56 - 8 * b)
    return word


@kernel
def string_words(data: Any, starts: Any, lengths: Any, rows: Any, skip: Any, out: Any) -> None:
    """Fill out uint64[m] with bytes skip..skip+7 of string rows[j], big endian, zero-filled."""
    for j in range(len(rows)):
        i = rows[j]
        if lengths[i] > skip:
            out[j] = _big_endian_at(data, starts[i] + skip, starts[i] + lengths[i])
        else:
            out[j] = 0


@helper
def compare_bytes(a: Any, a_at: Any, a_end: Any, b: Any, b_at: Any, b_end: Any) -> Any:
    """Return unsigned order of two byte strings: -1, 0 or 1."""
    while a_at < a_end and b_at < b_end:
        x, y = _big_endian_at(a, a_at, a_end), _big_endian_at(b, b_at, b_end)
        if x != y:
            return -1 if x < y else 1
        a_at += 8
        b_at += 8
    rest = (a_end - a_at) - (b_end - b_at)
    return -1 if rest < 0 else 1 if rest > 0 else 0


@kernel
def compare_neighbours(data: Any, starts: Any, lengths: Any, out: Any) -> None:
    """Fill out int8[n - 1] with the order of string i and string i + 1."""
    for i in range(len(out)):
        out[i] = compare_bytes(
            data, starts[i], starts[i] + lengths[i], data, starts[i + 1], starts[i + 1] + lengths[i + 1]
        )


@helper
def _has_escapes(word: Any) -> Any:
    """Return whether one of the 8 bytes is 00 or 01."""
    borrow = word - np.uint64(0x0202020202020202)
    return borrow & ~word & np.uint64(0x8080808080808080) != 0


@kernel
def escaped_sizes(data: Any, starts: Any, lengths: Any, out: Any) -> None:
    """Add the size of each escaped string, end mark included, to out int64[n]."""
    for i in range(len(out)):
        at, end = starts[i], starts[i] + lengths[i]
        size = lengths[i] + 1
        while at < end:
            if at + 8 <= end and not _has_escapes(load_u64(data, at)):
                at += 8
            else:
                size += data[at] <= _ESCAPE
                at += 1
        out[i] += size


@kernel
def put_escaped(out: Any, cursor: Any, data: Any, starts: Any, lengths: Any) -> None:
    """Write escaped strings and their end marks at the cursor, and advance it."""
    for i in range(len(cursor)):
        at, end, to = starts[i], starts[i] + lengths[i], cursor[i]
        while at < end:
            if at + 8 <= end and not _has_escapes(load_u64(data, at)):
                store_u64(out, to, load_u64(data, at))
                at += 8
                to += 8
                continue
            byte = data[at]
            if byte <= _ESCAPE:
                out[to] = _ESCAPE
                to += 1
                byte += np.uint8(1)
            out[to] = byte
            at += 1
            to += 1
        out[to] = 0
        cursor[i] = to + 1


@kernel
def gather_bits(values: Any, runs: Any, out: Any) -> None:
    """Fill out uint64[n] with runs of bits of each value moved together; runs uint64[r, 3] = (from, mask, to)."""
    for i in range(len(values)):
        out[i] = 0
    for r in range(len(runs)):
        source, mask, target = runs[r, 0], runs[r, 1], runs[r, 2]
        for i in range(len(values)):
            out[i] |= (values[i] >> source & mask) << target


@kernel
def radix_sort(keys: Any, other: Any, shift: Any, bits: Any) -> Any:
    """Sort uint64[n] by `bits` bits from bit `shift` on, stably; returns whether the result is in `other`."""
    n = len(keys)
    passes = (bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    width = (bits + passes - 1) // passes
    mask = np.uint64((1 << width) - 1)
    counts: Any = np.zeros((passes, 1 << width), np.int64)
    for i in range(n):
        rest = keys[i] >> np.uint64(shift)
        for p in range(passes):
            counts[p, np.intp(rest & mask)] += 1
            rest >>= np.uint64(width)
    source, target = keys, other
    swapped = False
    for p in range(passes):
        at = counts[p]
        total: Any = 0
        for digit in range(1 << width):
            count = at[digit]
            at[digit] = total
            total += count
        down = np.uint64(shift + p * width)
        for i in range(n):
            key = source[i]
            place = np.intp(key >> down & mask)
            target[at[place]] = key
            at[place] += 1
        source, target = target, source
        swapped = not swapped
    return swapped
