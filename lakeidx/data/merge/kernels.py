"""Kernels that merge sorted streams of keys. Keys are `NormalizedKeys`: words first, then, when not exact, byte strings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.order.kernels import compare_bytes
from lakeidx.codec.order.normalized_key import NormalizedKeys

Int64s = npt.NDArray[np.int64]


#: Keys as kernels take them: words, byte strings (data and offsets), and whether the words alone decide.
KeyBuffers: TypeAlias = tuple[npt.NDArray[np.uint64], Any, Any, bool]

# Keys that `merge_last` looks at one by one.
_NEAR = 32
_FIRST = np.uint64(0)


@inlined
def _order(words: Any, data: Any, offsets: Any, exact: Any, i: Any, j: Any) -> Any:
    """Compare keys i and j: negative, 0 or positive."""
    for k in range(words.shape[1]):
        a, b = words[i, k], words[j, k]
        if a != b:
            return -1 if a < b else 1
    if exact:
        return 0
    return compare_bytes(data, offsets[i], offsets[i + 1], data, offsets[j], offsets[j + 1])


@kernel
def is_rising(words: Any, data: Any, offsets: Any, exact: Any) -> Any:
    """Return whether every key is greater than the one before it."""
    for i in range(1, len(words)):  # noqa: SIM110 - a kernel has no generators
        if _order(words, data, offsets, exact, i - 1, i) >= 0:
            return False
    return True


@kernel
def merge_two(words: Any, data: Any, offsets: Any, exact: Any, a: Any, b: Any, out: Any) -> None:
    """Merge row numbers a and b, each in key order, into out; of equal keys those of a come first."""
    i = j = k = 0
    while i < len(a) and j < len(b):
        if _order(words, data, offsets, exact, a[i], b[j]) <= 0:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    while i < len(a):
        out[k] = a[i]
        i += 1
        k += 1
    while j < len(b):
        out[k] = b[j]
        j += 1
        k += 1


@inlined
def _first_at_least(words: Any, rows: Any, begin: Any, word: Any) -> Any:
    """Find the first place from `begin` on in rows, sorted by key, whose first word is not smaller, by doubling steps."""
    low, high, step = begin, len(rows), 1
    while low + step <= len(rows):
        probe = low + step - 1
        if words[rows[probe], 0] >= word:
            high = probe
            break
        low = probe + 1
        step *= 2
    while low < high:
        middle = (low + high) >> 1
        if words[rows[middle], 0] < word:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def merge_last(
    words: Any, data: Any, offsets: Any, exact: Any, sequences: Any, kinds: Any, long: Any, short: Any, later: Any, out: Any
) -> Any:  # fmt: skip
    """Merge row numbers as `merge_two` does, of equal keys only the row that `pick_last` would choose; returns how many.

    long, short  int64: rows in key order, no key twice in either. Between two rows of `short` those of `long` are looked at one by
                 one at first (a wrong guess of the processor costs as much as many steps), then by doubling steps
    later        whether the rows of `short` come after those of `long`
    """
    # Unsigned places need no look whether they count from the end, which makes the loops faster.
    at, count, size, one = np.uint64(0), np.uint64(0), np.uint64(len(long)), np.uint64(1)
    for row in short:
        word, near, same = words[row, 0], min(at + np.uint64(_NEAR), size), False
        while at < near and words[np.uint64(long[at]), _FIRST] < word:
            out[count] = long[at]
            at += one
            count += one
        if at == near and at < size:
            end = np.uint64(_first_at_least(words, long, np.int64(at), word))
            for i in range(at, end):
                out[count + i - at] = long[i]
            count += end - at
            at = end
        while at < size and words[np.uint64(long[at]), _FIRST] == word:
            order = _order(words, data, offsets, exact, long[at], row)
            same = order == 0
            if order >= 0:
                break
            out[count] = long[at]
            at += one
            count += one
        out[count] = row
        if same:
            first, second = (long[at], row) if later else (row, long[at])
            tie = sequences[second] == sequences[first]
            wins = sequences[second] > sequences[first] or (tie and (kinds[second] & 1) <= (kinds[first] & 1))
            out[count] = second if wins else first
            at += one
        count += one
    for i in range(at, size):
        out[count + i - at] = long[i]
    return np.int64(count + size - at)


@kernel
def _mark_starts(words: Any, data: Any, offsets: Any, exact: Any, order: Any, out: Any) -> Any:
    """Fill out int64 with the places in `order` (rows in key order) where a new key begins; return how many."""
    count = 0
    for k in range(len(order)):
        if k == 0 or _order(words, data, offsets, exact, order[k - 1], order[k]) != 0:
            out[count] = k
            count += 1
    return count


@kernel
def pick_last(order: Any, starts: Any, sequences: Any, kinds: Any, out: Any) -> None:
    """Fill out int64[g] with the last of each key's rows: greatest sequence number, an add after a retract.

    order      int64[n]: rows in key order; starts int64[g]: where each key begins in it
    sequences  int64 and kinds int8 by row. Of rows equal in both the later in `order` wins
    """
    for g in range(len(starts)):
        end = starts[g + 1] if g + 1 < len(starts) else len(order)
        best = order[starts[g]]
        for k in range(starts[g] + 1, end):
            row = order[k]
            tie = sequences[row] == sequences[best]
            if sequences[row] > sequences[best] or (tie and (kinds[row] & 1) <= (kinds[best] & 1)):
                best = row
        out[g] = best


@kernel
def sort_groups(order: Any, starts: Any, sequences: Any, kinds: Any) -> None:
    """Sort each key's rows of `order` (in place) by sequence number, retracts before adds, otherwise stable."""
    for g in range(len(starts)):
        begin = starts[g]
        end = starts[g + 1] if g + 1 < len(starts) else len(order)
        for k in range(begin + 1, end):
            row = order[k]
            at = k
            while at > begin:
                before = order[at - 1]
                later = sequences[before] > sequences[row] or (
                    sequences[before] == sequences[row] and (kinds[before] & 1) < (kinds[row] & 1)
                )
                if not later:
                    break
                order[at] = before
                at -= 1
            order[at] = row


def empty_rows() -> Any:
    """Return the byte-string arguments of exact keys."""
    return np.zeros(0, np.uint8), np.zeros(1, np.int64)


def starts_of_keys(buffers: KeyBuffers, order: Int64s) -> Int64s:
    """Return the places in `order`, rows in key order, where a new key begins."""
    out = np.empty(len(order), np.int64)
    words, data, offsets, exact = buffers
    return out[: _mark_starts(words, data, offsets, exact, frozen(order), out)]


def key_buffers(keys: NormalizedKeys) -> KeyBuffers:
    """Return the arguments with which kernels read keys."""
    data, offsets = (keys.rows.data, keys.rows.offsets) if keys.rows is not None else empty_rows()
    return frozen(keys.words), frozen(data), frozen(offsets), keys.exact
