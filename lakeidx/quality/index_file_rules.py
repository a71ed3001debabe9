"""Rules over HASH index files and bucket sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.quality.result import BucketId, PartitionName, RuleResult, Severity, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A HASH index file as the manifest names it and as it was found.

    entry    the index manifest's entry
    size     bytes of the file in the store, None when it is not there
    hashes   int32[m] in file order; None when the file is not there or its length is no multiple of 4
    intact   whether its content has the checksum in its name; names of other writers have none
    """

    entry: IndexEntry
    size: int | None
    hashes: NDArray[np.int32] | None
    intact: bool = True


def check_index_files(files: Iterable[IndexFile], *, partition_name: PartitionName = bytes.hex) -> RuleResult:
    """Check that every HASH file has 4 bytes per hash, the manifest's size, the checksum in its name, and no duplicate hash.

    files    HASH entries of one index manifest; two of them for one bucket are a fault, too
    cost     sorting the hashes of each file
    """
    checked = list(files)
    faults = list(_index_faults(checked, partition_name))
    kinds = [fault["fault"] for fault in faults]
    return RuleResult(
        name="index_files_agree",
        passed=not faults,
        severity=Severity.ERROR,
        metrics={
            "files": len(checked),
            "bytes": sum(file.size or 0 for file in checked),
            "hashes": sum(len(file.hashes) for file in checked if file.hashes is not None),
            **{f"files_{kind}": kinds.count(kind) for kind in _FAULTS},
        },
        sample=bounded(faults),
        description="Every hash index file has 4 bytes per hash, the manifest's size and rows, its checksum, and no hash twice.",
    )


_FAULTS = ("missing", "torn", "of_other_size", "of_other_row_count", "damaged", "with_repeats", "second_of_bucket")


def _index_faults(files: Iterable[IndexFile], partition_name: PartitionName) -> Iterator[dict[str, Any]]:
    seen: dict[BucketId, str] = {}
    for file in files:
        entry, size = file.entry, file.size
        named = {"partition": partition_name(entry.partition), "bucket": entry.bucket, "file": entry.file_name}
        other = seen.setdefault((entry.partition, entry.bucket), entry.file_name)
        if other != entry.file_name:
            yield {**named, "fault": "second_of_bucket", "first": other}
        if size is None:
            yield {**named, "fault": "missing"}
            continue
        if size % 4:
            yield {**named, "fault": "torn", "size": size}
        if size != entry.file_size:
            yield {**named, "fault": "of_other_size", "size": size, "manifest_size": entry.file_size}
        elif not file.intact:
            yield {**named, "fault": "damaged"}
        if size // 4 != entry.row_count or (file.hashes is not None and len(file.hashes) != entry.row_count):
            rows = size // 4 if file.hashes is None else len(file.hashes)
            yield {**named, "fault": "of_other_row_count", "rows": rows, "manifest_rows": entry.row_count}
        if file.hashes is not None:
            repeats = len(file.hashes) - len(sorted_distinct(file.hashes))
            if repeats:
                yield {**named, "fault": "with_repeats", "repeats": repeats, "first": _first_repeat(file.hashes)}


def _first_repeat(hashes: NDArray[np.int32]) -> int:
    found, counts = np.unique(hashes, return_counts=True)
    return int(found[counts > 1][0])


def check_bucket_rows(
    rows: Mapping[BucketId, int],
    *,
    target_rows: int,
    max_buckets: int = -1,
    partition_name: PartitionName = bytes.hex,
) -> RuleResult:
    """Check that no bucket has more than target rows, and no partition has more buckets than allowed.

    rows         (partition, bucket) -> hashes in its index (what the assigner counts)
    target_rows  dynamic-bucket.target-row-num
    max_buckets  dynamic-bucket.max-buckets, -1 for none. A partition that has reached it takes new keys beyond the
                 target, as it must: its buckets are not held against it
    """
    buckets_of = _buckets_by_partition(rows)
    offenders: list[dict[str, Any]] = []
    bursting = 0
    for partition, buckets in buckets_of.items():
        name = partition_name(partition)
        if max_buckets != -1 and len(buckets) > max_buckets:
            offenders.append({"partition": name, "buckets": len(buckets), "max_buckets": max_buckets})
        over = {b: n for b, n in buckets.items() if n > target_rows}
        if max_buckets != -1 and len(buckets) >= max_buckets:
            bursting += len(over)
        else:
            offenders += [
                {"partition": name, "bucket": b, "rows": n, "target_rows": target_rows} for b, n in over.items()
            ]
    return RuleResult(
        name="bucket_rows_within_target",
        passed=not offenders,
        severity=Severity.ERROR,
        metrics={
            "buckets": len(rows),
            "rows": sum(rows.values()),
            "largest_bucket_rows": max(rows.values(), default=0),
            "buckets_over_target": sum("bucket" in o for o in offenders),
            "buckets_over_target_at_max_buckets": bursting,
            "partitions_over_max_buckets": sum("max_buckets" in o for o in offenders),
        },
        sample=bounded(offenders),
        description="No bucket holds more keys than dynamic-bucket.target-row-num allows.",
    )


def check_bucket_skew(
    rows: Mapping[BucketId, int], *, max_skew: float = 2.0, partition_name: PartitionName = bytes.hex
) -> RuleResult:
    """Check that the largest bucket of a partition is not out of proportion.

    rows      (partition, bucket) -> keys
    max_skew  largest bucket over the partition's mean, up to which the rule passes. Buckets that are filled one after
              another never pass 2: all but the last are equal
    """
    skews: list[tuple[float, bytes, int, int]] = []
    for partition, buckets in _buckets_by_partition(rows).items():
        fullest = max(buckets, key=lambda b: (buckets[b], -b))
        mean = sum(buckets.values()) / len(buckets)
        skews.append((buckets[fullest] / mean if mean else 1.0, partition, fullest, buckets[fullest]))
    offenders = sorted((s for s in skews if s[0] > max_skew), reverse=True)
    return RuleResult(
        name="bucket_skew",
        passed=not offenders,
        severity=Severity.WARN,
        metrics={
            "partitions": len(skews),
            "partitions_skewed": len(offenders),
            "largest_skew": round(max((s[0] for s in skews), default=0.0), 3),
        },
        sample=bounded(
            {"partition": partition_name(partition), "bucket": bucket, "rows": n, "skew": round(skew, 3)}
            for skew, partition, bucket, n in offenders
        ),
        description="No bucket holds far more keys than the mean of its partition.",
    )


def _buckets_by_partition(rows: Mapping[BucketId, int]) -> dict[bytes, dict[int, int]]:
    out: dict[bytes, dict[int, int]] = {}
    for (partition, bucket), n in sorted(rows.items()):
        out.setdefault(partition, {})[bucket] = n
    return out
