"""The rule the whole index serves: a primary key lives once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.quality.result import SAMPLE_LIMIT, PartitionName, RuleResult, Severity, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketKeys:
    """Keys alive in a bucket after merge, from a reader.

    partition   partition bytes
    keys        trimmed primary keys as BinaryRows; any encoding that is equal exactly for equal keys will do
    hashes      int32[n]: hash of each key, equal for equal keys
    """

    partition: bytes
    bucket: int
    keys: RowBytes
    hashes: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Found:
    """Keys met more than once in one partition."""

    in_several_buckets: int
    twice_in_a_bucket: int
    sample: list[dict[str, Any]]


def check_keys_unique(
    buckets: Iterable[BucketKeys],
    *,
    partition_name: PartitionName = bytes.hex,
    key_name: Callable[[bytes], Any] = bytes.hex,
    across_partitions: bool = False,
) -> RuleResult:
    """Check that no primary key is in two buckets of its partition, and none occurs twice after a bucket's merge.

    key_name           how a sample shows a key
    across_partitions  a key may live in one partition only: the primary key leaves partition columns out
    errors    InvalidInputError when a bucket's keys and hashes differ in number
    cost      sorting the hashes of a partition; key bytes are compared only where hashes are equal
    """
    partitions: dict[bytes, list[BucketKeys]] = {}
    places: list[tuple[bytes, int]] = []
    for bucket in buckets:
        if len(bucket.keys) != len(bucket.hashes):
            raise InvalidInputError(f"bucket {bucket.bucket}: {len(bucket.keys)} keys, {len(bucket.hashes)} hashes")
        if across_partitions:
            # One partition for the comparison; buckets are numbered through, and named in the sample.
            partitions.setdefault(b"", []).append(replace(bucket, partition=b"", bucket=len(places)))
            places.append((bucket.partition, bucket.bucket))
        else:
            partitions.setdefault(bucket.partition, []).append(bucket)
    found = {p: _repeated_keys(parts, key_name) for p, parts in sorted(partitions.items())}
    several = sum(f.in_several_buckets for f in found.values())
    twice = sum(f.twice_in_a_bucket for f in found.values())
    return RuleResult(
        name="primary_key_once",
        passed=several + twice == 0,
        severity=Severity.ERROR,
        metrics={
            "keys": sum(len(part.hashes) for parts in partitions.values() for part in parts),
            "buckets": sum(len(parts) for parts in partitions.values()),
            "keys_in_several_buckets": several,
            "keys_twice_in_a_bucket": twice,
        },
        sample=bounded(
            {
                "partitions": sorted({partition_name(places[b][0]) for b in offender["buckets"]}),
                **offender,
                "buckets": [places[b][1] for b in offender["buckets"]],
            }
            if across_partitions
            else {"partition": partition_name(p), **offender}
            for p, f in found.items()
            for offender in f.sample
        ),
        description="No primary key is in two buckets, and none occurs twice after a merge.",
    )


def _repeated_keys(parts: list[BucketKeys], key_name: Callable[[bytes], Any]) -> _Found:
    hashes = np.concatenate([part.hashes for part in parts])
    rows = _rows_with_equal_hashes(hashes)
    if not len(rows):
        return _Found(0, 0, [])
    ends = np.cumsum([len(part.hashes) for part in parts])
    part_of = np.searchsorted(ends, rows, side="right")
    first_row = np.concatenate([[0], ends[:-1]])
    keys, row_buckets = [], []
    # `rows` ascends, so its rows of one part lie together and come in the order of the parts.
    for i, part in enumerate(parts):
        inside = rows[part_of == i] - first_row[i]
        keys.append(part.keys.to_arrow().take(pa.array(inside)).cast(pa.large_binary()))
        row_buckets.append(np.full(len(inside), part.bucket, np.int64))
    encoded = pa.chunked_array(keys, pa.large_binary()).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    # One number per row: which key, which bucket. Equal numbers: a key twice in a bucket.
    pairs, times = np.unique((codes << 32) | np.concatenate(row_buckets), return_counts=True)
    pair_keys, buckets_per_key = np.unique(pairs >> 32, return_counts=True)
    several, twice = pair_keys[buckets_per_key > 1], np.unique(pairs[times > 1] >> 32)
    sample = []
    for code in np.union1d(several, twice)[:SAMPLE_LIMIT].tolist():
        mine = pairs >> 32 == code
        sample.append(
            {
                "key": key_name(encoded.dictionary[code].as_py()),
                "buckets": (pairs[mine] & 0xFFFFFFFF).tolist(),
                "times": times[mine].tolist(),
            }
        )
    return _Found(len(several), len(twice), sample)


def _rows_with_equal_hashes(hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the rows whose hash another row has, too, ascending."""
    ordered = np.sort((hashes.astype(np.int64) << 32) | np.arange(len(hashes), dtype=np.int64))
    same = (ordered[1:] >> 32) == (ordered[:-1] >> 32)
    shared = np.zeros(len(hashes), np.bool_)
    shared[1:] = same
    shared[:-1] |= same
    return np.sort(ordered[shared] & 0xFFFFFFFF)
