"""Numba kernels over whole columns: building and reading serialised rows.

A bytes column comes as ``data uint8[]``, ``starts int64[n]``, ``lengths int64[n]`` (-1 = null). ``cursor int64[n]`` is
each row's next position in ``out``. Kernels that read foreign bytes give back the first bad row, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, kernel, load_u64, load_word, store_u64

_MAX_I32 = 2**31 - 1


@kernel
def store_words(out: Any, at: Any, plus: Any, words: Any) -> None:
    """Store words uint64[n] at ``out[at[i] + plus]``."""
    for i in range(len(words)):
        store_u64(out, at[i] + plus, words[i])


@helper
def _copy(out: Any, to: Any, data: Any, at: Any, length: Any) -> None:
    """Copy exactly `length` bytes, 8 at a time."""
    end = at + length
    while at + 8 <= end:
        store_u64(out, to, load_u64(data, at))
        at += 8
        to += 8
    while at < end:
        out[to] = data[at]
        at += 1
        to += 1


@kernel
def store_bytes(
    out: Any, rows: Any, plus: Any, cursor: Any, data: Any, starts: Any, lengths: Any, inline_max: Any
) -> None:
    """Store the slots (at ``rows[i] + plus``) and variable parts (at ``cursor[i]``, moved on) of a bytes column of BinaryRows."""
    for i in range(len(lengths)):
        length = lengths[i]
        if length > inline_max:
            slot = np.uint64(length) | np.uint64(cursor[i] - rows[i]) << np.uint64(32)
            store_u64(out, rows[i] + plus, slot)
            _copy(out, cursor[i], data, starts[i], length)
            cursor[i] += (length + 7) & ~7
        elif length >= 0:
            slot = load_word(data, starts[i], length) | np.uint64(0x80 + length) << np.uint64(56)
            store_u64(out, rows[i] + plus, slot)


@helper
def _put_varint(out: Any, to: Any, value: Any) -> Any:
    while value >= 0x80:
        out[to] = np.uint8(value & 0x7F | 0x80)
        value >>= 7
        to += 1
    out[to] = np.uint8(value)
    return to + 1


@kernel
def put_fixed(out: Any, cursor: Any, words: Any, valid: Any, width: Any) -> None:
    """Store the low `width` bytes of words uint64[n] at the cursor of valid rows, which moves on."""
    for i in range(len(words)):
        if valid[i]:
            word, to = words[i], cursor[i]
            if width == 8:
                store_u64(out, to, word)
            else:
                for b in range(width):
                    out[to + b] = np.uint8(word >> np.uint64(8 * b))
            cursor[i] = to + width


@kernel
def put_varints(out: Any, cursor: Any, values: Any, valid: Any) -> None:
    """Store values int64[n] >= 0 as unsigned LEB128 at the cursor of valid rows, which moves on."""
    for i in range(len(values)):
        if valid[i]:
            cursor[i] = _put_varint(out, cursor[i], values[i])


@kernel
def put_spans(out: Any, cursor: Any, data: Any, starts: Any, lengths: Any) -> None:
    """Write length as varint and bytes at the cursor of rows that are not null, and advance it."""
    for i in range(len(lengths)):
        length = lengths[i]
        if length >= 0:
            to = _put_varint(out, cursor[i], length)
            _copy(out, to, data, starts[i], length)
            cursor[i] = to + length


@kernel
def take_fixed(data: Any, cursor: Any, ends: Any, valid: Any, width: Any, words: Any) -> Any:
    """Read `width` bytes of each valid row into words uint64[n]; returns the first row that ends too early, or -1."""
    for i in range(len(words)):
        words[i] = 0
        if valid[i]:
            if cursor[i] + width > ends[i]:
                return i
            words[i] = load_word(data, cursor[i], width)
            cursor[i] += width
    return -1


@kernel
def take_varints(data: Any, cursor: Any, ends: Any, valid: Any, values: Any) -> Any:
    """Read an unsigned LEB128 int of each valid row into values int64[n]; returns the first bad row, or -1."""
    for i in range(len(values)):
        values[i] = 0
        if not valid[i]:
            continue
        value, shift, byte = np.int64(0), 0, np.int64(0x80)
        while byte >= 0x80:
            if cursor[i] >= ends[i] or shift > 28:
                return i
            byte = np.int64(data[cursor[i]])
            cursor[i] += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        if value > _MAX_I32:
            return i
        values[i] = value
    return -1


@kernel
def take_spans(cursor: Any, ends: Any, valid: Any, lengths: Any, starts: Any) -> Any:
    """Claim lengths[i] bytes of each valid row: starts[i] = where they are; returns the first bad row, or -1."""
    for i in range(len(lengths)):
        starts[i] = cursor[i]
        if valid[i]:
            if cursor[i] + lengths[i] > ends[i]:
                return i
            cursor[i] += lengths[i]
    return -1


@kernel
def gather(out: Any, to: Any, data: Any, starts: Any, lengths: Any) -> None:
    """Copy ``data[starts[i]:][:lengths[i]]`` to ``out[to[i]:]`` (negative lengths: nothing)."""
    for i in range(len(lengths)):
        _copy(out, to[i], data, starts[i], lengths[i])


@kernel
def split_decimals(low: Any, high: Any, lengths: Any, tails: Any) -> None:
    """Split 128-bit integers (low, high uint64[n]) into minimal big-endian bytes: their number, and tails uint64[2, n].

    tails holds 16 bytes a row: the big-endian bytes from the first one on, then zeros, as two little-endian words.
    """
    for i in range(len(low)):
        lo, hi = low[i], high[i]
        sign = np.uint64(0) - (hi >> np.uint64(63))
        # Bytes that carry more than copies of the sign bit, plus one bit for the sign.
        top, base = hi ^ sign, 8
        if top == np.uint64(0):
            top, base = lo ^ sign, 0
        bits = 0
        while top != np.uint64(0):
            top >>= np.uint64(1)
            bits += 1
        length = (base * 8 + bits) // 8 + 1
        lengths[i] = length
        first, second = np.uint64(0), np.uint64(0)
        for b in range(length):
            from_low = length - 1 - b
            part = lo >> np.uint64(8 * from_low) if from_low < 8 else hi >> np.uint64(8 * (from_low - 8))
            byte = part & np.uint64(0xFF)
            if b < 8:
                first |= byte << np.uint64(8 * b)
            else:
                second |= byte << np.uint64(8 * (b - 8))
        tails[0, i] = first
        tails[1, i] = second


@kernel
def join_decimals(data: Any, starts: Any, lengths: Any, out: Any) -> Any:
    """Join big-endian integers of 1 to 16 bytes into out uint64[n, 2] (low, high); returns the first bad row, or -1."""
    for i in range(len(lengths)):
        out[i, 0] = 0
        out[i, 1] = 0
        length = lengths[i]
        if length < 0:
            continue
        if length == 0 or length > 16:
            return i
        fill = np.uint64(0) - np.uint64(data[starts[i]] >> np.uint8(7))
        lo, hi = fill, fill
        for b in range(length):
            hi = hi << np.uint64(8) | lo >> np.uint64(56)
            lo = lo << np.uint64(8) | np.uint64(data[starts[i] + b])
        out[i, 0] = lo
        out[i, 1] = hi
    return -1
