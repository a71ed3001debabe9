"""Finds the buckets that can hold given keys: by the bucket function, or by the hash index of dynamic-bucket tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakeidx.codec.binary_row import encode_row, with_arity
from lakeidx.codec.binary_row_vec import hash_columns
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.predicate import Predicate, equality_values
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan_plan import BucketFinder
from lakeidx.table.view import HASH_INDEX, decode_partition_dict


def make_bucket_finder(metadata: TableMetadata, schema: TableSchema) -> BucketFinder | None:
    """A finder for the table's bucket mode; None where no predicate can tell buckets apart."""
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        return lambda predicate, index: None if not schema.bucket_keys else _fixed(predicate, schema)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return lambda predicate, index: _dynamic(predicate, index, metadata, schema)
    return None


class _AnyPartition(set[tuple[bytes, int]]):
    """Buckets by number, whatever the partition."""

    def __init__(self, buckets: set[int]) -> None:
        super().__init__()
        self._buckets = buckets

    def __contains__(self, place: object) -> bool:
        return isinstance(place, tuple) and place[1] in self._buckets


def _fixed(predicate: Predicate, schema: TableSchema) -> set[tuple[bytes, int]] | None:
    values = equality_values(predicate, schema.bucket_keys)
    if values is None:
        return None
    if not values:
        return set()
    types = [schema.field(n).type for n in schema.bucket_keys]
    columns = [internal_to_arrow([v[i] for v in values], t) for i, t in enumerate(types)]
    numbers = fixed_buckets(columns, types, schema.bucket, schema.table_options.bucket_function_type)
    return _AnyPartition(set(numbers.tolist()))


def _dynamic(
    predicate: Predicate, index: Sequence[IndexEntry], metadata: TableMetadata, schema: TableSchema
) -> set[tuple[bytes, int]] | None:
    """Buckets whose hash index has one of the keys' hashes, where the partition is given, too: an index file per bucket is read."""
    keys = equality_values(predicate, schema.trimmed_primary_keys)
    if keys is None:
        return None
    if not keys:
        return set()
    partitions: set[bytes] | None = None
    if schema.partition_keys:
        values = equality_values(predicate, schema.partition_keys)
        if values is None:
            return None
        partitions = {with_arity(encode_row(list(v), schema.partition_types), len(v)) for v in values}
    columns = [internal_to_arrow([k[i] for k in keys], t) for i, t in enumerate(schema.key_types)]
    hashes = hash_columns(columns, schema.key_types)
    found: set[tuple[bytes, int]] = set()
    for entry in index:
        if entry.index_type != HASH_INDEX or (partitions is not None and entry.partition not in partitions):
            continue
        path = metadata.paths.index_file(
            decode_partition_dict(entry.partition, schema),
            entry.bucket,
            entry.file_name,
            external_path=entry.external_path,
        )
        if np.isin(hashes, decode_hash_index(metadata.store.get(path), path)).any():
            found.add((entry.partition, entry.bucket))
    return found
