"""Keeping a bucket's HASH index file: what has to be written after a batch.

source   org.apache.paimon.index.DynamicBucketIndexMaintainer, release 1.4.2. Java writes the hashes in the order of its
         hash set; the order has no meaning, lakeidx writes them ascending.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeidx.index.hash_set import sorted_set

_NONE = np.empty(0, np.int32)


def plan_index_update(old: NDArray[np.int32] | None, new_hashes: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Content of the bucket's next index file, or None when the present one stays.

    old         int32[k]: hashes of the present file in any order, None when the bucket has no file
    new_hashes  int32[n]: hashes of the keys written to the bucket, known ones and repeats among them; deletes count
                like any
                other key, and never take a hash out
    returns     old and new hashes, each once, ascending; None when no hash is new
    cost        sorting both, about 50 ns per hash; nothing is done when `new_hashes` is empty
    """
    if not len(new_hashes):
        return None
    known = _NONE if old is None else sorted_set(old)
    united = sorted_set(np.concatenate([known, new_hashes]))
    return united if len(united) > len(known) else None


class DynamicBucketIndexMaintainer:
    """The index of one bucket over several batches: collects hashes, gives the file's content once per commit.

    old   int32[k]: hashes of the present file, None when the bucket has none
    """

    __slots__ = ("_known", "_new")

    def __init__(self, old: NDArray[np.int32] | None = None) -> None:
        self._known = _NONE if old is None else old
        self._new: list[NDArray[np.int32]] = []

    def notify_new_records(self, hashes: NDArray[np.int32]) -> None:
        """Note the key hashes (int32[n]) of records written to the bucket."""
        self._new.append(hashes)

    def prepare_commit(self) -> NDArray[np.int32] | None:
        """The content of the file to write for this commit, ascending; None when nothing is new since the last one."""
        planned = plan_index_update(self._known, np.concatenate([_NONE, *self._new]))
        self._new = []
        if planned is not None:
            self._known = planned
        return planned
