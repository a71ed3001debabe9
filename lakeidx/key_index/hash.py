"""hash: Paimon's own HASH index files, one set of key hashes per bucket; the default, and what Java reads and continues with.

source   org.apache.paimon.index.{HashBucketAssigner,PartitionIndex}, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.key_index.locations import KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, KeyIndexDefaults


@dataclass(frozen=True)
class HashKeyIndex(KeyIndexDefaults):
    """Two keys with one hash share a bucket, as they do for Java; which file has a key is not known."""

    name: str = "hash"
    needs_keys: bool = False
    in_shares = True
    is_global: bool = False
    moves_keys: bool = False

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the hashes of the batch.

        cost   streams the HASH files of the batch's partitions; memory follows the batch
        """
        n = len(batch)
        if not n:
            return no_locations(batch)
        metrics = IndexMetrics(keys=n)
        bucket = np.full(n, -1, np.int32)
        groups = group_rows(batch.partition, len(batch.partitions))
        for number, partition in enumerate(batch.partitions):
            rows = groups.rows(number)
            index = context.view.key_buckets(partition, batch.hashes[rows], threads=context.pool.parallelism)
            bucket[rows] = index.of(batch.hashes[rows])
            metrics.files += index.files
            metrics.files_read += index.files
            metrics.rows_read += index.rows
            metrics.bytes_read += 4 * index.rows
            metrics.split_keys += index.split
        metrics.found = int((bucket >= 0).sum())
        return KeyLocations(
            bucket=bucket,
            partition=batch.partition,
            partitions=batch.partitions,
            file=np.full(n, -1, np.int32),
            metrics=metrics,
        )
