"""Finds the buckets that can hold given keys: by the bucket function, or by the hash index of dynamic-bucket tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

import numpy as np

from lakeidx.codec.binary_row_vec import hash_columns
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.values import internal_to_arrow
from lakeidx.errors import CorruptFileError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.predicate import Predicate, equality_values
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan_plan import BucketFinder
from lakeidx.table.view import HASH_INDEX, decode_partition_dict

_log = logging.getLogger(__name__)

#: (partition bytes, bucket)
Place = tuple[bytes, int]
KeepFile = Callable[[ManifestEntry], bool]


def make_bucket_finder(metadata: TableMetadata, schema: TableSchema) -> BucketFinder | None:
    """A finder for the table's bucket mode; None where no predicate can tell buckets apart."""
    if schema.bucket_mode is BucketMode.HASH_FIXED and schema.bucket_keys:
        return lambda predicate, index, places: _fixed(predicate, schema)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return lambda predicate, index, places: _dynamic(predicate, index, places, metadata, schema)
    return None


def _fixed(predicate: Predicate, schema: TableSchema) -> KeepFile | None:
    """By the bucket function, with the number of buckets that each file was written for."""
    values = equality_values(predicate, schema.bucket_keys)
    if values is None:
        return None
    types = [schema.field(n).type for n in schema.bucket_keys]
    columns = [internal_to_arrow([v[i] for v in values], t) for i, t in enumerate(types)]
    known: dict[int, set[int]] = {}

    def keep(entry: ManifestEntry) -> bool:
        total = entry.total_buckets
        if not values:
            return False
        if total <= 0:
            return True
        if total not in known:
            numbers = fixed_buckets(columns, types, total, schema.table_options.bucket_function_type)
            known[total] = set(numbers.tolist())
        return entry.bucket in known[total]

    return keep


def _dynamic(
    predicate: Predicate,
    index: Sequence[IndexEntry],
    places: Collection[Place],
    metadata: TableMetadata,
    schema: TableSchema,
) -> KeepFile | None:
    """Buckets whose hash index has one of the keys' hashes: the index file of each bucket in question is read.

    A bucket without a hash index, or with a damaged one, is kept.
    """
    keys = equality_values(predicate, schema.trimmed_primary_keys)
    if keys is None:
        return None
    if not keys:
        return lambda entry: False
    columns = [internal_to_arrow([k[i] for k in keys], t) for i, t in enumerate(schema.key_types)]
    hashes = hash_columns(columns, schema.key_types)
    without: set[Place] = set()
    for entry in index:
        place = (entry.partition, entry.bucket)
        if entry.index_type != HASH_INDEX or place not in places:
            continue
        path = metadata.paths.index_file(
            decode_partition_dict(entry.partition, schema),
            entry.bucket,
            entry.file_name,
            external_path=entry.external_path,
        )
        try:
            known = decode_hash_index(metadata.store.get(path), path)
        except CorruptFileError as error:
            _log.warning("bucket %d is read without its hash index: %s", entry.bucket, error)
            continue
        if not any((known == h).any() for h in hashes) if len(hashes) <= 4 else not np.isin(hashes, known).any():
            without.add(place)
    return lambda entry: (entry.partition, entry.bucket) not in without
