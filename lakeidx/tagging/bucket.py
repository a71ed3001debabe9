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
from lakeidx.tagging.base import Int32s, Int64s, KeyBatch, StatelessTagger, TagContext, TagResult, no_locations
from lakeidx.tagging.bucket_id import bucket_ids
from lakeidx.tagging.consistent import nodes_of, ring_places
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.hash_rings import HashRings, bucket_of_node
from lakeidx.tagging.options import IndexOptions


@dataclass(frozen=True)
class BucketTagger(StatelessTagger):
    """Computed buckets.

    foreign   known keys are found by other means (the HASH index), so buckets that the rule does not give are no harm
    """

    foreign: bool = False
    name: str = "bucket"
    is_global: bool = False
    moves_keys: bool = False

    def tag(self, batch: KeyBatch, context: TagContext) -> TagResult:
        """The computed bucket where it has files, else an insert.

        errors   InvalidInputError when the table has buckets that the rule never gives
        """
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
        figures = TagFigures(keys=n, files=len(files), found=int(known.sum()))
        return TagResult(
            bucket=np.where(known, computed, -1).astype(np.int32),
            partition=batch.partition,
            partitions=batch.partitions,
            file=np.full(n, -1, np.int32),
            figures=figures,
        )

    def place_inserts(self, batch: KeyBatch, context: TagContext) -> Int32s:
        """int32[n] the computed bucket of every row."""
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


def index_fields(batch: KeyBatch, context: TagContext) -> list[str]:
    """Key columns that decide the bucket.

    errors   InvalidInputError when the option names another column
    """
    return ring_fields(batch.keys.column_names, context.options)


def ring_fields(key_names: Sequence[str], options: IndexOptions) -> list[str]:
    """`index_fields` of a table whose trimmed primary key has these columns."""
    chosen = list(options.hoodie_bucket_index_hash_field)
    unknown = [c for c in chosen if c not in key_names]
    if unknown:
        raise InvalidInputError(
            f"hoodie.bucket.index.hash.field names {', '.join(unknown)}; the key has {', '.join(key_names)}"
        )
    # A key of one column is its bare value and has no field names to pick by.
    return chosen if len(key_names) > 1 else []


def _refuse_foreign_buckets(buckets: Int64s, context: TagContext) -> None:
    count = context.options.hoodie_bucket_index_num_buckets
    if len(buckets) and int(buckets.max()) >= count:
        raise InvalidInputError(
            f"the table has bucket {int(buckets.max())}, but hoodie.bucket.index.num.buckets is {count}: "
            "the number was changed, or another writer placed rows by another rule"
        )
