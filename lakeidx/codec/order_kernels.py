"""Numba kernels of key order: words of strings, comparison of neighbours, search in sorted keys."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from lakeidx.codec.jit import kernel, load_u64

# Escapes of byte strings inside a longer key: 00 -> 01 01, 01 -> 01 02, and 00 ends the string.
ESCAPE = 1


@numba.njit
def _swapped(word: Any) -> Any:
    """Bytes of a u64 in reverse, so that unsigned order is the order of the bytes."""
    word = (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (word >> np.uint64(8)) & np.uint64(
        0x00FF00FF00FF00FF
    )
    word = (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (word >> np.uint64(16)) & np.uint64(
        0x0000FFFF0000FFFF
    )
    return word << np.uint64(32) | word >> np.uint64(32)


@numba.njit
def _big_endian_at(data: Any, at: Any, end: Any) -> Any:
    """Up to 8 bytes of ``data[at:end]`` as a big-endian u64, zero-filled at the end."""
    if at + 8 <= end:
        return _swapped(load_u64(data, at))
    word = np.uint64(0)
    for b in range(end - at):
        word |= np.uint64(data[at + b]) << np.uint64(56 - 8 * b)
    return word


@kernel
def string_words(data: Any, starts: Any, lengths: Any, rows: Any, skip: Any, out: Any) -> None:
    """out uint64[m]: bytes skip..skip+7 of string rows[j], big endian, zero-filled."""
    for j in range(len(rows)):
        i = rows[j]
        if lengths[i] > skip:
            out[j] = _big_endian_at(data, starts[i] + skip, starts[i] + lengths[i])
        else:
            out[j] = 0


@numba.njit
def compare_bytes(a: Any, a_at: Any, a_end: Any, b: Any, b_at: Any, b_end: Any) -> Any:
    """Unsigned order of two byte strings: -1, 0 or 1."""
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
    """out int8[n - 1]: order of string i and string i + 1."""
    for i in range(len(out)):
        out[i] = compare_bytes(
            data, starts[i], starts[i] + lengths[i], data, starts[i + 1], starts[i + 1] + lengths[i + 1]
        )


@kernel
def escaped_sizes(data: Any, starts: Any, lengths: Any, out: Any) -> None:
    """out int64[n] grows by the size of each escaped string, end mark included."""
    for i in range(len(out)):
        size = lengths[i] + 1
        for at in range(starts[i], starts[i] + lengths[i]):
            if data[at] <= ESCAPE:
                size += 1
        out[i] += size


@kernel
def put_escaped(out: Any, cursor: Any, data: Any, starts: Any, lengths: Any) -> None:
    """Escaped strings and their end marks at the cursor, which moves on."""
    for i in range(len(cursor)):
        to = cursor[i]
        for at in range(starts[i], starts[i] + lengths[i]):
            byte = data[at]
            if byte <= ESCAPE:
                out[to] = ESCAPE
                to += 1
                byte += np.uint8(1)
            out[to] = byte
            to += 1
        out[to] = 0
        cursor[i] = to + 1


@numba.njit
def _is_before(
    words: Any,
    data: Any,
    offsets: Any,
    i: Any,
    probe_words: Any,
    probe_data: Any,
    probe_offsets: Any,
    j: Any,
    exact: Any,
) -> Any:
    """Whether key i lies before probe j (2), equals it (1) or lies after it (0)."""
    for k in range(words.shape[1]):
        if words[i, k] != probe_words[j, k]:
            return 2 if words[i, k] < probe_words[j, k] else 0
    if exact:
        return 1
    return 1 - compare_bytes(data, offsets[i], offsets[i + 1], probe_data, probe_offsets[j], probe_offsets[j + 1])


@kernel
def search_keys(
    words: Any,
    data: Any,
    offsets: Any,
    probe_words: Any,
    probe_data: Any,
    probe_offsets: Any,
    exact: Any,
    or_equal: Any,
    out: Any,
) -> None:
    """out int64[m]: how many sorted keys lie before probe j, equal ones too with `or_equal`.

    words uint64[n, w] decide; where they are equal and not `exact`, the byte strings ``data[offsets[i]:offsets[i + 1]]``.
    Each search starts from the answer before it and doubles its steps: cheap when the probes are sorted too.
    """
    n, at = len(words), 0
    least = 1 if or_equal else 2
    for j in range(len(probe_words)):
        lo, hi = 0, n
        if at < n and _is_before(words, data, offsets, at, probe_words, probe_data, probe_offsets, j, exact) >= least:
            lo, step = at + 1, 1
            while lo + step <= n:
                p = lo + step - 1
                if _is_before(words, data, offsets, p, probe_words, probe_data, probe_offsets, j, exact) < least:
                    hi = p
                    break
                lo = p + 1
                step *= 2
        elif at < n:
            hi = at
        while lo < hi:
            mid = (lo + hi) >> 1
            if _is_before(words, data, offsets, mid, probe_words, probe_data, probe_offsets, j, exact) >= least:
                lo = mid + 1
            else:
                hi = mid
        out[j] = lo
        at = lo
