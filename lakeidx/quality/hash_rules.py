"""Rules over the hashes of a dynamic-bucket index: one owner each, and no live key without its hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import missing_from, sorted_distinct
from lakeidx.quality.result import SAMPLE_LIMIT, BucketId, PartitionName, RuleResult, Severity, bounded

Hashes = NDArray[np.int32]
_NONE: Hashes = np.empty(0, np.int32)


def check_one_bucket_per_hash(
    index: Mapping[BucketId, Hashes], *, partition_name: PartitionName = bytes.hex
) -> RuleResult:
    """Check that every hash is in the index of exactly one bucket of its partition.

    index    (partition, bucket) -> int32[m], hashes of the bucket's HASH file
    cost     sorting the hashes, partition by partition
    """
    partitions: dict[bytes, dict[int, Hashes]] = {}
    for (partition, bucket), hashes in index.items():
        partitions.setdefault(partition, {})[bucket] = hashes
    found = {partition: find_duplicate_hashes(buckets) for partition, buckets in sorted(partitions.items())}
    shared = sum(len(duplicates) for duplicates in found.values())
    return RuleResult(
        name="hash_in_one_bucket",
        passed=shared == 0,
        severity=Severity.ERROR,
        metrics={
            "partitions": len(partitions),
            "buckets": len(index),
            "hashes": sum(len(hashes) for hashes in index.values()),
            "hashes_in_several_buckets": shared,
        },
        sample=bounded(
            {"partition": partition_name(partition), **offender}
            for partition, duplicates in found.items()
            for offender in duplicates.sample(SAMPLE_LIMIT)
        ),
        description="Every hash of the index is in exactly one bucket of its partition.",
    )


def check_live_keys_indexed(
    live: Mapping[BucketId, Hashes], index: Mapping[BucketId, Hashes], *, partition_name: PartitionName = bytes.hex
) -> RuleResult:
    """Check that every live key's hash is in the index of the key's bucket; else the next upsert may place it again.

    live     (partition, bucket) -> int32[n], hashes of the keys alive after merge, in any order
    index    (partition, bucket) -> int32[m], hashes of the bucket's HASH file; a bucket without one is left out
    cost     sorting both, bucket by bucket; other buckets are searched only for the hashes in the sample
    """
    missing = {
        bucket_id: lost
        for bucket_id, hashes in sorted(live.items())
        if len(lost := missing_from(hashes, sorted_distinct(index.get(bucket_id, _NONE))))
    }
    return RuleResult(
        name="live_keys_indexed",
        passed=not missing,
        severity=Severity.ERROR,
        metrics={
            "buckets": len(live),
            "live_keys": sum(len(hashes) for hashes in live.values()),
            "hashes_not_indexed": sum(len(lost) for lost in missing.values()),
            "buckets_with_gaps": len(missing),
        },
        sample=bounded(_gaps(missing, index, partition_name)),
        description="The hash of every live key is in the index of the key's own bucket.",
    )


def _gaps(
    missing: Mapping[BucketId, Hashes], index: Mapping[BucketId, Hashes], partition_name: PartitionName
) -> Iterator[dict[str, Any]]:
    for (partition, bucket), lost in missing.items():
        shown = lost[:SAMPLE_LIMIT]
        others = {b: index[p, b] for p, b in sorted(index) if p == partition and b != bucket}
        holders = {b: set(hashes[np.isin(hashes, shown)].tolist()) for b, hashes in others.items()}
        for lost_hash in shown.tolist():
            yield {
                "partition": partition_name(partition),
                "bucket": bucket,
                "hash": lost_hash,
                "indexed_in": [b for b, held in holders.items() if lost_hash in held],
            }


def check_stale_hashes(
    live: Mapping[BucketId, Hashes],
    index: Mapping[BucketId, Hashes],
    *,
    max_stale_share: float = 0.0,
    partition_name: PartitionName = bytes.hex,
) -> RuleResult:
    """Count index hashes without a live key: left by deletes, harmless except for space (no writer removes them).

    live, index      as for `check_live_keys_indexed`
    max_stale_share  share of stale hashes, 0 to 1, up to which the rule passes
    cost             sorting both, bucket by bucket
    """
    stale = {
        bucket_id: left
        for bucket_id, hashes in sorted(index.items())
        if len(left := missing_from(hashes, sorted_distinct(live.get(bucket_id, _NONE))))
    }
    hashes = sum(len(h) for h in index.values())
    count = sum(len(left) for left in stale.values())
    return RuleResult(
        name="stale_hashes",
        passed=count <= max_stale_share * hashes,
        severity=Severity.WARN,
        metrics={"hashes": hashes, "stale_hashes": count, "buckets_with_stale_hashes": len(stale)},
        sample=bounded(
            {
                "partition": partition_name(partition),
                "bucket": bucket,
                "stale_hashes": len(left),
                "hashes": len(index[partition, bucket]),
                "first": int(left[0]),
            }
            for (partition, bucket), left in sorted(stale.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
        description="No hash of the index is without a live key.",
    )


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
