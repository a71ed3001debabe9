"""bucket: the bucket of a new row is computed from its key, by Hudi's rules.

SIMPLE               BucketIdentifier over ``hoodie.bucket.index.num.buckets``, which must never change for a table
with data
CONSISTENT_HASHING   a ring per partition (`hash_rings`), whose buckets are split and merged as they grow and shrink

The rule places new keys. Known ones are found by the HASH index, as Java's dynamic-bucket writers place keys by a rule of
their own.

source   org.apache.hudi.index.bucket.{HoodieSimpleBucketIndex,HoodieSparkConsistentBucketIndex}, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.consistent_hashing import nodes_of, ring_places
from lakeidx.key_index.bucket.ids import bucket_ids
from lakeidx.key_index.bucket.rings import HashRings, bucket_of_node
from lakeidx.key_index.locations import Int32s, KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, Locator


@dataclass(frozen=True)
class BucketKeyIndex(Locator):
    """Computed buckets for new keys; known ones are found by the HASH index, so that keys in other buckets do no harm."""

    splits_buckets: bool = False

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the hashes of the batch in the HASH index: two keys with one hash share a bucket, as they do for Java.

        cost   streams the HASH files of the batch's partitions; memory follows the batch
        """
        if not len(batch):
            return no_locations(batch)
        metrics = IndexMetrics(keys=len(batch))
        bucket = np.full(len(batch), -1, np.int32)
        groups = group_rows(batch.partition, len(batch.partitions))
        for number, partition in enumerate(batch.partitions):
            rows = groups[number]
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
            file=np.full(len(batch), -1, np.int32),
            metrics=metrics,
        )

    def place_inserts(self, batch: KeyBatch, context: IndexContext) -> Int32s:
        """Return the computed bucket of every row, int32[n]."""
        options = context.options
        fields = index_fields(batch, context)
        if options.hoodie_index_bucket_engine == "SIMPLE":
            return bucket_ids(batch.record_keys, fields, options.hoodie_bucket_index_num_buckets)
        rings = HashRings(context)
        places = ring_places(batch.record_keys, fields)
        out = np.empty(len(batch), np.int32)
        live: dict[bytes, set[int]] = {p: set() for p in batch.partitions}
        for file in context.view.files(batch.partitions):
            live[file.partition].add(file.bucket)
        for i, partition in enumerate(batch.partitions):
            ring = rings.load(context.view.partition_text(partition), live[partition], foreign=True)
            rows = np.flatnonzero(batch.partition == i)
            buckets = np.array([bucket_of_node(node) for node in ring.nodes], np.int32)
            out[rows] = buckets[nodes_of(ring, places[rows])]
        return out


def index_fields(batch: KeyBatch, context: IndexContext) -> list[str]:
    """Return the key columns that decide the bucket.

    errors   InvalidInputError when the option names another column
    """
    return ring_fields(batch.keys.column_names, context.options)


def has_rings(options: IndexOptions) -> bool:
    """Return True for the options of a table whose buckets are those of rings, to be split and merged."""
    return options.index_type == "bucket" and options.hoodie_index_bucket_engine != "SIMPLE"


def ring_fields(key_names: Sequence[str], options: IndexOptions) -> list[str]:
    """Return `index_fields` of a table whose trimmed primary key has these columns."""
    chosen = list(options.hoodie_bucket_index_hash_field)
    unknown = [c for c in chosen if c not in key_names]
    if unknown:
        raise InvalidInputError(
            f"hoodie.bucket.index.hash.field names {', '.join(unknown)}; the key has {', '.join(key_names)}"
        )
    # A key of one column is its bare value and has no field names to pick by.
    return chosen if len(key_names) > 1 else []
