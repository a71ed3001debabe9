"""Sets of key hashes as sorted int32 columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.distinct import sorted_distinct

#: So many times as many hashes are searched; fewer are merged.
_MANY = 8


def missing_from(hashes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sort the distinct hashes that are not in `known`, int32[m].

    hashes   int32[n], any order, repeats allowed
    known    int32[k], sorted ascending
    cost     sorting `hashes`, then n binary searches in ascending order
    """
    wanted = sorted_distinct(hashes)
    return wanted[~are_known(wanted, known)]


def shared_with(wanted: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the hashes that both have, ascending, int32[m].

    wanted   int32[n], ascending, each once
    known    int32[k], ascending, each once
    cost     one pass over both; where one has many more, binary searches in it, one for each of the fewer
    """
    few, many = (wanted, known) if len(wanted) <= len(known) else (known, wanted)
    if len(many) > _MANY * len(few):
        return few[are_known(few, many)]
    # A stable sort merges what is in order.
    both = np.sort(np.concatenate((few, many)), kind="stable")
    shared: NDArray[np.int32] = both[:-1][both[1:] == both[:-1]]
    return shared


def are_known(hashes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which hashes `known`, ascending, has: bool[n]. As ``np.isin``, which would sort the hashes, too."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    found: NDArray[np.bool_] = known.take(np.searchsorted(known, hashes), mode="clip") == hashes
    return found
