"""Sets of key hashes as sorted int32 columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sorted_set(hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sort the distinct hashes, int32[m]; the input itself when it is that already."""
    if len(hashes) < 2 or bool((hashes[1:] > hashes[:-1]).all()):
        return hashes
    ordered = np.sort(hashes)
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered if first.all() else ordered[first]


def missing_from(hashes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sort the distinct hashes that `known` does not hold, int32[m].

    hashes   int32[n], any order, repeats allowed
    known    int32[k], sorted ascending
    cost     sorting `hashes`, then n binary searches in ascending order
    """
    wanted = sorted_set(hashes)
    if not len(known):
        return wanted
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = len(known) - 1
    found: NDArray[np.int32] = wanted[known[at] != wanted]
    return found
