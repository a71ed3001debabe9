"""Rows in the order of their 64-bit hashes: radix passes over the bits that distinguish nearly all, comparisons for the rest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeidx.codec.distinct import sorted_distinct
from lakeidx.codec.order.kernels import DIGIT_BITS, radix_sort

#: Below so many rows, or with runs of so many ascending ones, a merge sort is as fast.
_FEW, _LONG_RUN = 512, 64
#: Bits that are sorted by beyond those that number the rows: of 64 rows one shares them with another.
_SPARE_BITS = 6


def hash_order(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the rows ascending by hash, int64[n]; rows of one hash keep their order.

    hashes   uint64[n], evenly spread; any others are sorted as well, only slower
    """
    n = len(hashes)
    if n < _FEW or np.count_nonzero(hashes[1:] < hashes[:-1]) * _LONG_RUN < n:
        return np.argsort(hashes, kind="stable")
    index_bits = (n - 1).bit_length()
    used = min(64 - index_bits, -(-(index_bits + _SPARE_BITS) // DIGIT_BITS) * DIGIT_BITS)
    packed = hashes >> np.uint64(64 - used)
    packed <<= np.uint64(index_bits)
    packed |= np.arange(n, dtype=np.uint64)
    other = np.empty_like(packed)
    if radix_sort(packed, other, index_bits, used):
        packed = other
    order: npt.NDArray[np.int64] = (packed & np.uint64((1 << index_bits) - 1)).view(np.int64)
    packed >>= np.uint64(index_bits)
    first = np.flatnonzero(packed[1:] == packed[:-1])
    if len(first):
        at = sorted_distinct(np.concatenate((first, first + 1)))
        rows = order[at]
        order[at] = rows[np.argsort(hashes[rows], kind="stable")]
    return order
