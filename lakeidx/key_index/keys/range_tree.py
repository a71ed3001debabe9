"""Hudi's interval tree of key ranges, over integers (ranks of bounds), and its list filter, as kernels.

A node has one range and all files that have exactly it. Nodes are ordered by (low, then high); each keeps the
smallest low and the largest high of its left and of its right subtree. Nothing balances the tree, so ranges are
inserted in shuffled order. A query visits a node, takes its files when the range holds the key, and goes down a side
only if that side's span holds it.

source   org.apache.hudi.index.bloom.{KeyRangeLookupTree,KeyRangeNode}, release 1.0.2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen, kernel
from lakeidx.errors import InternalError

Ints = npt.NDArray[np.int64]
_NONE = -1
# A tree of shuffled inserts is about 3 ln(n) deep; this is only a bound for the walk's stack, checked before use.
_MAX_STACK = 1 << 20


def tree_spans(keys: Ints, low: Ints, high: Ints, order: Ints) -> tuple[Ints, Ints, Ints]:
    """Search the tree for each key, and record per file the first and last matching key.

    keys       int64[g] ascending
    low, high  int64[F] ranges, inclusive
    order      int64[F] in which ranges are inserted
    returns    first int64[F], last int64[F] (last < first: none), met int64[F] (how many keys)
    """
    tree = _empty_tree(len(low))
    depth = _insert_all(frozen(low), frozen(high), frozen(order), *tree)
    if depth > _MAX_STACK:
        raise InternalError(f"an interval tree of {len(low)} ranges is {depth} deep")
    first, last, met = _no_spans(len(low), len(keys))
    stack = np.empty(depth + 2, np.int64)
    _query_all(frozen(keys), frozen(low), frozen(high), *tree, stack, first, last, met)
    return first, last, met


def list_spans(keys: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Compare every file with every key, with the same result: Hudi's list filter."""
    first, last, met = _no_spans(len(low), len(keys))
    _scan_all(frozen(keys), frozen(low), frozen(high), first, last, met)
    return first, last, met


def _no_spans(files: int, keys: int) -> tuple[Ints, Ints, Ints]:
    return np.full(files, keys, np.int64), np.full(files, -1, np.int64), np.zeros(files, np.int64)


def _empty_tree(files: int) -> tuple[Ints, Ints, Ints, Ints]:
    # children[i] = left, right; spans[i] = left low, left high, right low, right high; same[i] = next file with the
    # range
    spans = np.empty((files, 4), np.int64)
    spans[:, 0::2] = np.iinfo(np.int64).max
    spans[:, 1::2] = np.iinfo(np.int64).min
    return (
        np.full((files, 2), _NONE, np.int64),
        spans,
        np.full(files, _NONE, np.int64),
        np.full(1, _NONE, np.int64),
    )


@kernel
def _insert_all(low: Any, high: Any, order: Any, children: Any, spans: Any, same: Any, root: Any) -> Any:
    deepest = 0
    for i in order:
        at, depth = root[0], 1
        if at < 0:
            root[0] = i
        while at >= 0:
            depth += 1
            if low[i] == low[at] and high[i] == high[at]:
                same[i] = same[at]
                same[at] = i
                break
            side = 1 if (low[i] > low[at] or (low[i] == low[at] and high[i] > high[at])) else 0
            spans[at, 2 * side] = min(spans[at, 2 * side], low[i])
            spans[at, 2 * side + 1] = max(spans[at, 2 * side + 1], high[i])
            below = children[at, side]
            if below < 0:
                children[at, side] = i
            at = below
        deepest = max(deepest, depth)
    return deepest


@kernel
def _query_all(
    keys: Any,
    low: Any,
    high: Any,
    children: Any,
    spans: Any,
    same: Any,
    root: Any,
    stack: Any,
    first: Any,
    last: Any,
    met: Any,
) -> None:
    if root[0] < 0:
        return
    for g in range(len(keys)):
        key = keys[g]
        stack[0] = root[0]
        top = 1
        while top > 0:
            top -= 1
            at = stack[top]
            if low[at] <= key <= high[at]:
                file = at
                while file >= 0:
                    first[file] = min(first[file], g)
                    last[file] = max(last[file], g)
                    met[file] += 1
                    file = same[file]
            for side in range(2):
                if children[at, side] >= 0 and spans[at, 2 * side] <= key <= spans[at, 2 * side + 1]:
                    stack[top] = children[at, side]
                    top += 1


@kernel
def _scan_all(keys: Any, low: Any, high: Any, first: Any, last: Any, met: Any) -> None:
    for g in range(len(keys)):
        for file in range(len(low)):
            if low[file] <= keys[g] <= high[file]:
                first[file] = min(first[file], g)
                last[file] = max(last[file], g)
                met[file] += 1
