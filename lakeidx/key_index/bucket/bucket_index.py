"""bucket: the key itself says its bucket, by Hudi's rules; nothing is looked up.

SIMPLE               BucketIdentifier over ``hoodie.bucket.index.num.buckets``, which must never change for a table
with data
CONSISTENT_HASHING   a ring per partition (`hash_rings`), whose buckets are split and merged as they grow and shrink

A bucket without files has no keys yet, so its rows are inserts; in the others a row is taken for an update, known or
not. Every writer of the table must follow the same rule: Java's dynamic-bucket writers place new keys by their own,
and a key they placed elsewhere would be written a second time.

source   org.apache.hudi.index.bucket.{HoodieSimpleBucketIndex,HoodieSparkConsistentBucketIndex}, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.consistent_hashing import nodes_of, ring_places
from lakeidx.key_index.bucket.ids import bucket_ids
from lakeidx.key_index.bucket.rings import HashRings, bucket_of_node
from lakeidx.key_index.hash import HashKeyIndex
from lakeidx.key_index.locations import Int32s, Int64s, KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, KeyIndexDefaults


@dataclass(frozen=True)
class BucketKeyIndex(KeyIndexDefaults):
    """Computed buckets.

    foreign   known keys are found by other means (the HASH index), so buckets that the rule does not give are no harm
    """

    foreign: bool = False
    name: str = "bucket"
    is_global: bool = False
    moves_keys: bool = False

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Return what the HASH index says of tables with foreign writers; else the computed bucket where it has files, or insert.

        errors   InvalidInputError when the table has buckets that the rule never gives
        """
        if self.foreign:
            return HashKeyIndex().tag(batch, context)
        n = len(batch)
        if not n:
            return no_locations(batch)
        computed = self.place_inserts(batch, context)
        number = {p: i for i, p in enumerate(batch.partitions)}
        files = context.view.files(batch.partitions)
        present = np.unique(np.array([number[f.partition] << 32 | f.bucket for f in files], np.int64))
        if context.options.hoodie_index_bucket_engine == "SIMPLE":
            _refuse_foreign_buckets(present & 0xFFFFFFFF, context)
        known = np.isin(batch.partition.astype(np.int64) << 32 | computed, present)
        metrics = IndexMetrics(keys=n, files=len(files), found=int(known.sum()))
        return KeyLocations(
            bucket=np.where(known, computed, -1).astype(np.int32),
            partition=batch.partition,
            partitions=batch.partitions,
            file=np.full(n, -1, np.int32),
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
            ring = rings.load(context.view.partition_text(partition), live[partition], foreign=self.foreign)
            rows = np.flatnonzero(batch.partition == i)
            buckets = np.array([bucket_of_node(node) for node in ring.nodes], np.int32)
            out[rows] = buckets[nodes_of(ring, places[rows])]
        return out


def index_fields(batch: KeyBatch, context: IndexContext) -> list[str]:
    """Return the key columns that decide the bucket.

    errors   InvalidInputError when the option names another column
    """
    return ring_fields(batch.keys.column_names, context.options)


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


def _refuse_foreign_buckets(buckets: Int64s, context: IndexContext) -> None:
    count = context.options.hoodie_bucket_index_num_buckets
    if len(buckets) and int(buckets.max()) >= count:
        raise InvalidInputError(
            f"the table has bucket {int(buckets.max())}, but hoodie.bucket.index.num.buckets is {count}: "
            "the number was changed, or another writer placed rows by another rule"
        )
