"""Rows grouped by small numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.jit import kernel
from lakeidx.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows of a column put into groups; inside a group they keep their order.

    order   int64[n], row numbers, group after group
    starts  int64[groups + 1]: group g is order[starts[g] : starts[g + 1]]
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def rows(self, group: int) -> NDArray[np.int64]:
        """Return the row numbers of one group, ascending."""
        return self.order[self.starts[group] : self.starts[group + 1]]


@kernel
def _counting_sort(codes: NDArray[np.int32], starts: NDArray[np.int64], order: NDArray[np.int64]) -> None:
    for i in range(len(codes)):
        starts[codes[i] + 1] += 1
    for g in range(1, len(starts)):
        starts[g] += starts[g - 1]
    at = starts[:-1].copy()
    for i in range(len(codes)):
        g = codes[i]
        order[at[g]] = i
        at[g] += 1


def group_rows(codes: NDArray[np.int32], num_groups: int) -> RowGroups:
    """Group rows by a small number, two passes and no comparison.

    codes    int32[n], each 0 to num_groups - 1
    errors   InvalidInputError for a code out of range
    """
    if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= num_groups):
        raise InvalidInputError(f"group numbers run from {codes.min()} to {codes.max()}, not 0 to {num_groups - 1}")
    starts = np.zeros(num_groups + 1, np.int64)
    order = np.empty(len(codes), np.int64)
    _counting_sort(codes, starts, order)
    return RowGroups(order, starts)
