"""Sorted streams of keys laid end to end, and merged as row numbers of what results."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen
from lakeidx.codec.order.normalized_key import NormalizedKeys
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.merge.kernels import empty_rows, mark_starts, merge_last, merge_two

Int64s = npt.NDArray[np.int64]

#: Keys as kernels take them: words, byte strings (data and offsets), and whether the words alone decide.
KeyBuffers: TypeAlias = tuple[npt.NDArray[np.uint64], Any, Any, bool]


def merge_parts(lengths: Sequence[int], buffers: KeyBuffers) -> Int64s:
    """Merge the rows of sorted parts laid end to end; the two shortest streams are merged first. Earlier parts first on ties."""

    def merge(a: Int64s, b: Int64s) -> Int64s:
        out = np.empty(len(a) + len(b), np.int64)
        merge_two(*buffers, a, b, out)
        return out

    return _by_twos(lengths, merge)


def merge_to_last(
    lengths: Sequence[int], buffers: KeyBuffers, sequences: Int64s, kinds: npt.NDArray[np.int8]
) -> Int64s:
    """Merge as `merge_parts` does, and keep of each key's rows only the one that the kernel `pick_last` chooses.

    lengths     of the parts; in none of them a key is there twice
    sequences   int64[n] and kinds int8[n]: of all rows
    """
    sequences, kinds = frozen(sequences), frozen(kinds)

    def merge(a: Int64s, b: Int64s) -> Int64s:
        out = np.empty(len(a) + len(b), np.int64)
        later = len(b) <= len(a)
        long, short = (a, b) if later else (b, a)
        return out[: merge_last(*buffers, sequences, kinds, long, short, later, out)]

    return _by_twos(lengths, merge)


def _by_twos(lengths: Sequence[int], merge: Callable[[Int64s, Int64s], Int64s]) -> Int64s:
    """Merge streams of row numbers two at a time, the shortest first; `merge` gets the one of earlier parts first."""
    bounds = np.cumsum([0, *lengths])
    heap: list[tuple[int, int, Int64s]] = []
    for i, length in enumerate(lengths):
        heapq.heappush(heap, (length, i, frozen(np.arange(bounds[i], bounds[i + 1]))))
    while len(heap) > 1:
        (n, i, a), (m, j, b) = heapq.heappop(heap), heapq.heappop(heap)
        # Counted with rows that `merge` left out: who meets whom, and so who wins of equals, depends on the parts alone.
        heapq.heappush(heap, (n + m, min(i, j), frozen(merge(a, b) if i < j else merge(b, a))))
    return heap[0][2]


def starts_of_keys(buffers: KeyBuffers, order: Int64s) -> Int64s:
    """Return the places in `order`, rows in key order, where a new key begins."""
    out = np.empty(len(order), np.int64)
    words, data, offsets, exact = buffers
    return out[: mark_starts(words, data, offsets, exact, frozen(order), out)]


def key_buffers(keys: NormalizedKeys) -> KeyBuffers:
    """Return the arguments with which kernels read keys."""
    data, offsets = (keys.rows.data, keys.rows.offsets) if keys.rows is not None else empty_rows()
    return frozen(keys.words), frozen(data), frozen(offsets), keys.exact


def concat_keys(parts: Sequence[NormalizedKeys]) -> NormalizedKeys:
    """Concatenate keys of one type."""
    if len(parts) == 1:
        return parts[0]
    words = np.concatenate([p.words for p in parts])
    rows = [p.rows for p in parts if p.rows is not None]
    return NormalizedKeys(words, RowBytes.concat(rows) if rows else None)


def take_keys(keys: NormalizedKeys, rows: Int64s) -> NormalizedKeys:
    """Take the keys of some rows."""
    if keys.rows is None:
        return NormalizedKeys(keys.words[rows], None)
    return NormalizedKeys(keys.words[rows], keys.rows.take(rows))
