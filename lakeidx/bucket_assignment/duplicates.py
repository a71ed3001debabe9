"""Hashes that two buckets of a partition have: of a key in two places, or of two keys with one hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import sorted_distinct


@dataclass(frozen=True, slots=True)
class DuplicateHashes:
    """Hashes found in two or more buckets.

    hashes   int32[d], ascending
    starts   int64[d + 1]: hash i is in buckets[starts[i] : starts[i + 1]]
    buckets  int32, ascending for each hash
    """

    hashes: NDArray[np.int32]
    starts: NDArray[np.int64]
    buckets: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.hashes)

    def buckets_of(self, i: int) -> NDArray[np.int32]:
        """List the buckets the i-th hash is in."""
        return self.buckets[self.starts[i] : self.starts[i + 1]]

    def sample(self, limit: int) -> list[dict[str, object]]:
        """Show the first `limit` of them as ``{"hash": h, "buckets": [...]}``."""
        return [
            {"hash": int(self.hashes[i]), "buckets": self.buckets_of(i).tolist()} for i in range(min(limit, len(self)))
        ]


def find_duplicate_hashes(buckets: Mapping[int, NDArray[np.int32]]) -> DuplicateHashes:
    """Find the hashes that are in more than one bucket of a partition. A hash twice inside one bucket is not one of them.

    buckets  bucket -> int32[m], in any order
    cost     merging all hashes once, 6 bytes per hash while it runs; 12 bytes when there is something to find
    """
    sets = {bucket: sorted_distinct(hashes) for bucket, hashes in sorted(buckets.items())}
    # Sorting 4-byte hashes tells in a fraction of the time that there is nothing to find, which is nearly always so; a merge
    # sort finds the buckets' hashes ascending already.
    ordered = np.concatenate([np.empty(0, np.int32), *sets.values()])
    ordered.sort(kind="stable")
    if not (ordered[1:] == ordered[:-1]).any():
        return DuplicateHashes(np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32))
    hashes = np.concatenate(list(sets.values()))
    owners = np.repeat(np.fromiter(sets, np.int32, len(sets)), [len(s) for s in sets.values()])
    # One sortable number per pair: hash in the upper half (order kept by the shift), bucket in the lower half.
    pairs = np.sort((hashes.astype(np.int64) << 32) | owners)
    hashes = (pairs >> 32).astype(np.int32)
    again = np.flatnonzero(hashes[1:] == hashes[:-1])
    keep = np.zeros(len(pairs), np.bool_)
    keep[again] = True
    keep[again + 1] = True
    found, starts = np.unique(hashes[keep], return_index=True)
    owners = (pairs[keep] & 0xFFFFFFFF).astype(np.int32)
    return DuplicateHashes(found, np.append(starts, len(owners)).astype(np.int64), owners)
