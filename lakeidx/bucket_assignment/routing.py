"""Rows grouped by small numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def group_rows(codes: NDArray[np.int32], num_groups: int) -> list[NDArray[np.int64]]:
    """Group rows by a small number; return the row numbers of each group, ascending.

    codes    int32[n], each 0 to num_groups - 1
    """
    # 16-bit numbers make NumPy's stable sort a radix sort.
    order = np.argsort(codes.astype(np.uint16) if num_groups < 1 << 16 else codes, kind="stable")
    counts = np.bincount(codes, minlength=num_groups)
    ends = np.cumsum(counts)
    return [order[start:end] for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True)]
