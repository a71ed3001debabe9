"""Sets of key hashes as sorted int32 columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.distinct import sorted_distinct


def missing_from(hashes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sort the distinct hashes that are not in `known`, int32[m].

    hashes   int32[n], any order, repeats allowed
    known    int32[k], sorted ascending
    cost     sorting `hashes`, then n binary searches in ascending order
    """
    wanted = sorted_distinct(hashes)
    return wanted[~are_known(wanted, known)]


def are_known(hashes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which hashes `known`, ascending, has: bool[n]. As ``np.isin``, which would sort the hashes, too."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    found: NDArray[np.bool_] = known.take(np.searchsorted(known, hashes), mode="clip") == hashes
    return found
