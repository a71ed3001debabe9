"""A filter of a batch's key hashes: what of an index file the batch may have.

An index file holds all hashes of a bucket, a batch often few of them. The filter is a bitmap over the **top** bits of the hash, so
that an ascending file walks it from one end to the other. Hashes that pass without being in the batch are real hashes of their
bucket, so remembering them does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.jit import frozen, kernel

#: Bits of the bitmap for each hash of the batch, and of the whole bitmap: 512 KiB to 64 MiB.
_BITS_EACH, _MIN_BITS, _MAX_BITS = 32, 22, 29
_ONE, _S5, _MASK_5 = np.uint32(1), np.uint32(5), np.uint32(31)


@kernel
def _mark(words: NDArray[np.uint32], hashes: NDArray[np.int32], shift: int) -> None:
    s = np.uint32(shift)
    for i in range(len(hashes)):
        at = np.uint32(np.uint32(hashes[i]) >> s)
        words[at >> _S5] |= np.uint32(_ONE << (at & _MASK_5))


@kernel
def _pass(words: NDArray[np.uint32], hashes: NDArray[np.int32], shift: int, out: NDArray[np.int32]) -> int:
    # Every hash is written, and the place moves on for those that pass: no branch to predict.
    s, kept = np.uint32(shift), 0
    for i in range(len(hashes)):
        at = np.uint32(np.uint32(hashes[i]) >> s)
        out[kept] = hashes[i]
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
        """Return those of some hashes that pass, in their order, int32[k].

        cost     one pass, and memory for as many hashes while it runs
        """
        out = np.empty(len(hashes) + 1, np.int32)
        return out[: _pass(self._words, frozen(hashes), self._shift, out)].copy()
