"""Rows grouped by small numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError


def group_rows(codes: NDArray[np.int32], num_groups: int) -> list[NDArray[np.int64]]:
    """Group rows by a small number; return the row numbers of each group, ascending.

    codes    int32[n], each 0 to num_groups - 1
    errors   InvalidInputError for a code out of range
    """
    if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= num_groups):
        raise InvalidInputError(f"group numbers run from {codes.min()} to {codes.max()}, not 0 to {num_groups - 1}")
    order = stable_order(codes, num_groups)
    counts = np.bincount(codes, minlength=num_groups)
    ends = np.cumsum(counts)
    return [order[start:end] for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True)]


def stable_order(codes: NDArray[np.integer], num_groups: int) -> NDArray[np.int64]:
    """Order rows by a small number, from 0 to num_groups - 1; rows with the same one keep their order."""
    # 16-bit numbers make NumPy's stable sort a radix sort.
    return np.argsort(codes.astype(np.uint16) if num_groups < 1 << 16 else codes, kind="stable")
