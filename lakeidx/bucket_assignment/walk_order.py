"""The order in which Java walks the non-full buckets it loaded from index files.

PartitionIndex keeps them in a ``java.util.HashMap`` filled with ``compute``, once per hash of each file. A new key is
put at the head of its bin, the table (16 bins at first) doubles when it already holds more than 3/4 of its bins, or
when a bin has reached eight keys in a table below 64. The walk goes bin by bin. Which bucket takes the next key is free
as far as the format goes; following Java's order makes a table written in turns by both come out the same.

source   org.apache.paimon.index.PartitionIndex.loadIndex, release 1.4.2; java.util.HashMap of Java 8 to 21
"""

from __future__ import annotations

from collections.abc import Iterable

_FIRST_CAPACITY = 16
_TREE_BIN = 8
_TREE_CAPACITY = 64


def loaded_walk_order(files: Iterable[tuple[int, int]]) -> list[int]:
    """Order of the buckets after loading index files.

    files    (bucket, hashes in its file) as scanned, no bucket twice; a file of no hashes leaves no bucket
    returns  the buckets in Java's order; ascending when a bin would have become a tree (eight buckets that differ by
             multiples of 64 or more among the loaded ones), whose order Java derives from the tree's rotations
    """
    loaded = [(bucket, hashes) for bucket, hashes in files if hashes > 0]
    if len(loaded) < 2:
        return [bucket for bucket, _ in loaded]
    bins: list[list[int]] = [[] for _ in range(_FIRST_CAPACITY)]
    for size, (bucket, hashes) in enumerate(loaded, start=1):
        if size - 1 > len(bins) * 3 // 4:
            bins = _doubled(bins)
        chain = bins[bucket & (len(bins) - 1)]
        chain.insert(0, bucket)
        if len(chain) >= _TREE_BIN:
            if len(bins) >= _TREE_CAPACITY:
                return sorted(b for b, _ in loaded)
            bins = _doubled(bins)
        # The file's second hash calls compute again, and compute grows the table before it looks for the key.
        if hashes > 1 and size > len(bins) * 3 // 4:
            bins = _doubled(bins)
    return [bucket for chain in bins for bucket in chain]


def _doubled(bins: list[list[int]]) -> list[list[int]]:
    low = [[b for b in chain if not b & len(bins)] for chain in bins]
    high = [[b for b in chain if b & len(bins)] for chain in bins]
    return low + high
