"""Find the buckets that can contain given keys: by the bucket function, or by the hash index of dynamic-bucket tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.predicate import Predicate, equality_values
from lakeidx.table.key_buckets import buckets_by_function, find_hits, key_hashes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import BucketFinder
from lakeidx.table.view import HASH_INDEX

#: (partition bytes, bucket)
Place = tuple[bytes, int]
KeepFile = Callable[[ManifestEntry], bool]


def make_bucket_finder(metadata: TableMetadata, schema: TableSchema) -> BucketFinder | None:
    """Make a finder for the table's bucket mode; None where no predicate can exclude buckets."""
    if schema.bucket_mode is BucketMode.HASH_FIXED and schema.bucket_keys:
        return lambda predicate, index, places: _fixed(predicate, schema)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return lambda predicate, index, places: _dynamic(predicate, index, places, metadata, schema)
    return None


def _fixed(predicate: Predicate, schema: TableSchema) -> KeepFile | None:
    """Compute buckets by the bucket function, with the number of buckets that each file was written for."""
    values = equality_values(predicate, schema.bucket_keys)
    if values is None:
        return None
    keys = _key_table(schema, schema.bucket_keys, values)
    known: dict[int, set[int]] = {}

    def keep(entry: ManifestEntry) -> bool:
        total = entry.total_buckets
        if not values:
            return False
        if total <= 0:
            return True
        if total not in known:
            known[total] = set(buckets_by_function(schema, keys, total).tolist())
        return entry.bucket in known[total]

    return keep


def _dynamic(
    predicate: Predicate,
    index: Sequence[IndexEntry],
    places: Collection[Place],
    metadata: TableMetadata,
    schema: TableSchema,
) -> KeepFile | None:
    """Return the buckets whose hash index has one of the keys' hashes: the index file of each bucket in question is read.

    A bucket without a hash index, or with a damaged one, is kept.
    """
    values = equality_values(predicate, schema.trimmed_primary_keys)
    if values is None:
        return None
    if not values:
        return lambda entry: False
    hashes = key_hashes(schema, _key_table(schema, schema.trimmed_primary_keys, values))
    entries = [e for e in index if e.index_type == HASH_INDEX and (e.partition, e.bucket) in places]
    found = find_hits(metadata, schema, entries, [hashes], skip_damaged=True)
    without = {
        (hits.entry.partition, hits.entry.bucket)
        for hits in found
        if hits.hashes is not None and not np.isin(hits.hashes, hashes).any()
    }
    return lambda entry: (entry.partition, entry.bucket) not in without


def _key_table(schema: TableSchema, names: Sequence[str], values: Sequence[Sequence[Any]]) -> pa.Table:
    """Return the key values, internal ones, as rows of some columns."""
    types = schema.types_of(list(names))
    return pa.table(
        {n: internal_to_arrow([v[i] for v in values], t) for i, (n, t) in enumerate(zip(names, types, strict=True))}
    )
