"""Sets of key hashes: sorted int32 columns, as an index file has them, and a filter.

An index file holds all hashes of a bucket, a batch often few of them. The filter is a bitmap over the **top** bits of the hash, so
that an ascending file walks it from one end to the other. Hashes that pass without being in the batch are real hashes of their
bucket, so remembering them does no harm.

source   org.apache.paimon.index.DynamicBucketIndexMaintainer, release 1.4.2. Java writes the hashes in the order of its
         hash set; the order has no meaning, lakeidx writes them ascending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel

#: Bits of the filter for each hash of the batch, and of the whole bitmap: 512 KiB to 64 MiB.
_BITS_EACH, _MIN_BITS, _MAX_BITS = 32, 22, 29
_ONE, _S5, _MASK_5 = np.uint32(1), np.uint32(5), np.uint32(31)


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


_NONE = np.empty(0, np.int32)


def plan_index_update(old: NDArray[np.int32] | None, new_hashes: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Plan the content of the bucket's next index file, or None when the present one stays.

    old         int32[k]: hashes of the present file in any order, None when the bucket has no file
    new_hashes  int32[n]: hashes of the keys written to the bucket, known ones and repeats among them; deletes count
                like any
                other key, and never take a hash out
    returns     old and new hashes, each once, ascending; None when no hash is new
    cost        sorting `new_hashes`, and a merge with `old` when it is ascending, as lakeidx writes it; Java's are sorted first
    """
    if not len(new_hashes):
        return None
    known = _NONE if old is None else sorted_distinct(old)
    missing = missing_from(new_hashes, known)
    if not len(missing):
        return None
    if not len(known):
        return missing
    merged = np.concatenate((known, missing))
    # A stable sort merges what is in order.
    merged.sort(kind="stable")
    return merged


@kernel
def _mark(words: NDArray[np.uint32], hashes: NDArray[np.int32], shift: int) -> None:
    s = np.uint32(shift)
    for i in range(len(hashes)):
        at = np.uint32(np.uint32(hashes[i]) >> s)
        words[at >> _S5] |= np.uint32(_ONE << (at & _MASK_5))


@kernel
def _pass(words: NDArray[np.uint32], hashes: NDArray[np.int32], shift: int, out: NDArray[np.int32]) -> int:
    # Every position is written, and the place moves on for those that pass: no branch to predict.
    s, kept = np.uint32(shift), 0
    for i in range(len(hashes)):
        at = np.uint32(np.uint32(hashes[i]) >> s)
        out[kept] = i
        kept += int((words[at >> _S5] >> (at & _MASK_5)) & _ONE)
    return kept


class HashFilter:
    """A filter of a batch's hashes without false negatives: it passes every hash of the batch, and some others.

    columns   int32[n] each, repeats allowed
    """

    __slots__ = ("_shift", "_words")

    def __init__(self, columns: Sequence[NDArray[np.int32]]) -> None:
        rows = sum(map(len, columns))
        bits = min(max((rows * _BITS_EACH).bit_length(), _MIN_BITS), _MAX_BITS)
        self._shift = 32 - bits
        self._words = np.zeros(1 << (bits - 5), np.uint32)
        for hashes in columns:
            _mark(self._words, frozen(hashes), self._shift)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the bitmap."""
        return int(self._words.nbytes)

    def passing(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return those of some hashes that pass, in their order, int32[k]; cost as of `where`."""
        return hashes[self.where(hashes)]

    def where(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return which of some hashes pass, int32[k] ascending.

        cost     one pass, and memory for as many hashes while it runs
        """
        out = np.empty(len(hashes) + 1, np.int32)
        return out[: _pass(self._words, frozen(hashes), self._shift, out)].copy()


Integer = TypeVar("Integer", bound=np.integer)


def sorted_distinct(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return each value once, ascending; one dimension, dtype kept. Equals ``np.unique``; the input itself when it has them so."""
    is_ascending = not (values[1:] < values[:-1]).any()
    return ascending_distinct(values if is_ascending else np.sort(values))


def ascending_distinct(ordered: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return each of ascending values once; the input itself when none is repeated."""
    differs = ordered[1:] != ordered[:-1]
    if differs.all():
        return ordered
    found: npt.NDArray[Integer] = ordered[np.append(True, differs)]
    return found
