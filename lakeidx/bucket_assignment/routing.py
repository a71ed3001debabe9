"""Which assigner task a key goes to, and grouping rows by small numbers.

source   org.apache.paimon.index.BucketAssigner.computeAssigner, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.jit import kernel
from lakeidx.errors import InvalidInputError


def assigner_of(
    partition_hash: int | NDArray[np.int32], key_hashes: NDArray[np.int32], *, num_channels: int, num_assigners: int
) -> NDArray[np.int32]:
    """Compute the assigner task of each row.

    partition_hash  hash of the partition's BinaryRow: one number for all rows, or int32[n]
    key_hashes      int32[n], hashes of the trimmed primary key's BinaryRow
    num_channels    assigner tasks there are; a partition's keys start at task abs(partition_hash % num_channels)
    num_assigners   tasks that share one partition
    returns         int32[n], 0 to num_channels - 1
    errors          InvalidInputError when one of the two numbers is below 1
    """
    _check_counts(num_channels, num_assigners)
    # Java: abs(h % n) with a truncated remainder, which is abs(h) % n; 64 bits, because abs(-2**31) has no 32-bit form.
    start = np.abs(np.asarray(partition_hash, np.int64)) % num_channels
    ids = np.abs(key_hashes.astype(np.int64)) % num_assigners
    found: NDArray[np.int32] = ((start + ids) % num_channels).astype(np.int32)
    return found


def _check_counts(num_channels: int, num_assigners: int) -> None:
    if num_channels < 1 or num_assigners < 1:
        raise InvalidInputError(f"{num_assigners} assigners on {num_channels} channels: both must be at least 1")


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
