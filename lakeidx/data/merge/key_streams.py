"""Sorted streams of keys laid end to end, and merged as row numbers of what results."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.jit import frozen
from lakeidx.codec.order.normalized_key import NormalizedKeys
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.merge.kernels import empty_rows, mark_starts, merge_two

Int64s = npt.NDArray[np.int64]

#: Keys as kernels take them: words, byte strings (data and offsets), and whether the words alone decide.
KeyBuffers: TypeAlias = tuple[npt.NDArray[np.uint64], Any, Any, bool]


def merge_parts(lengths: Sequence[int], buffers: KeyBuffers) -> Int64s:
    """Merge the rows of sorted parts laid end to end; the two shortest streams are merged first. Earlier parts first on ties."""
    words, data, offsets, exact = buffers
    bounds = np.cumsum([0, *lengths])
    heap: list[tuple[int, int, Int64s]] = []
    for i, length in enumerate(lengths):
        heapq.heappush(heap, (length, i, frozen(np.arange(bounds[i], bounds[i + 1]))))
    while len(heap) > 1:
        (n, i, a), (m, j, b) = heapq.heappop(heap), heapq.heappop(heap)
        if j < i:
            a, b = b, a
        out = np.empty(n + m, np.int64)
        merge_two(words, data, offsets, exact, a, b, out)
        heapq.heappush(heap, (n + m, min(i, j), frozen(out)))
    return heap[0][2]


def starts_of_keys(buffers: KeyBuffers, order: Int64s) -> Int64s:
    """Return the places in `order`, rows in key order, where a new key begins."""
    out = np.empty(len(order), np.int64)
    words, data, offsets, exact = buffers
    return out[: mark_starts(words, data, offsets, exact, frozen(order), out)]


def key_buffers(keys: NormalizedKeys) -> KeyBuffers:
    """Return the arguments by which kernels take keys."""
    data, offsets = (keys.rows.data, keys.rows.offsets) if keys.rows is not None else empty_rows()
    return frozen(keys.words), frozen(data), frozen(offsets), keys.exact


def concat_keys(parts: Sequence[NormalizedKeys]) -> NormalizedKeys:
    """Lay keys of one type end to end."""
    if len(parts) == 1:
        return parts[0]
    words = np.concatenate([p.words for p in parts])
    rows = [p.rows for p in parts if p.rows is not None]
    return NormalizedKeys(words, _concat_rows(rows) if rows else None)


def _concat_rows(parts: Sequence[RowBytes]) -> RowBytes:
    offsets = np.zeros(sum(len(p) for p in parts) + 1, np.int64)
    np.cumsum(np.concatenate([p.lengths for p in parts]), out=offsets[1:])
    return RowBytes(np.concatenate([p.flat for p in parts]), offsets)


def take_keys(keys: NormalizedKeys, rows: Int64s) -> NormalizedKeys:
    """Take the keys of some rows."""
    if keys.rows is None:
        return NormalizedKeys(keys.words[rows], None)
    return NormalizedKeys(keys.words[rows], RowBytes.from_arrow(keys.rows.to_arrow().take(pa.array(rows))))
