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
    return wanted[~_held(wanted, known)] if len(known) else wanted


def shared_with(wanted: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the hashes that both have, ascending, int32[m].

    wanted   int32[n], ascending, each once
    known    int32[k], ascending, each once
    cost     binary searches in ascending order, one for each of the fewer
    """
    few, many = (wanted, known) if len(wanted) <= len(known) else (known, wanted)
    return few[_held(few, many)] if len(few) else few


def _held(wanted: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = known.take(np.searchsorted(known, wanted), mode="clip") == wanted
    return found
