"""Rules over the hashes of a dynamic-bucket index: one owner each, and no live key without its hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import are_known, missing_from, sorted_distinct
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
    shared = sum(count for count, _ in found.values())
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
            for partition, (_, sample) in found.items()
            for offender in sample
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


def find_duplicate_hashes(
    buckets: Mapping[int, NDArray[np.int32]], limit: int = SAMPLE_LIMIT
) -> tuple[int, list[dict[str, Any]]]:
    """Find the hashes that are in more than one bucket of a partition. A hash twice inside one bucket is not one of them.

    buckets  bucket -> int32[m], in any order
    returns  how many there are, and the first ones, as many as the limit, as ``{"hash": h, "buckets": [...]}``
    cost     sorting all hashes once, 8 bytes per hash while it runs
    """
    sets = {bucket: sorted_distinct(hashes) for bucket, hashes in sorted(buckets.items())}
    # A merge sort finds the buckets' hashes ascending already.
    ordered = np.sort(np.concatenate([_NONE, *sets.values()]), kind="stable")
    found = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    shown = found[:limit]
    holders = [(bucket, are_known(shown, hashes)) for bucket, hashes in sets.items()]
    sample = [{"hash": h, "buckets": [b for b, held in holders if held[i]]} for i, h in enumerate(shown.tolist())]
    return len(found), sample
