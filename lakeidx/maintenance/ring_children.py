"""Which of a resize's new buckets each key of the old ones goes to.

By the ring, if the ring says one of them. Two kinds of keys it may say otherwise of: those that another writer (Java) placed
in an old bucket, and those that share the hash of a key that was there before; both are found by the HASH index, never by the
ring. They go to whichever new bucket is next on the ring, and all keys of one hash to the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.bucket.bucket_index import ring_fields
from lakeidx.key_index.bucket.consistent_hashing import HashingMetadata, nodes_of, ring_places
from lakeidx.key_index.bucket.rings import bucket_of_node
from lakeidx.key_index.keys.record_key import record_keys
from lakeidx.key_index.options import IndexOptions


@dataclass(frozen=True, slots=True, eq=False)
class ChildBuckets:
    """Hash -> new bucket.

    hashes    int32[u] ascending, of all keys of the old buckets; empty when there is one new bucket, which takes all
    buckets   int32[u]
    only      the one new bucket, None when there are several
    """

    hashes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    only: int | None = None

    def of(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the bucket of each key hash, int32[n]; all of them must be known."""
        if self.only is not None:
            return np.full(len(hashes), self.only, np.int32)
        return self.buckets[np.searchsorted(self.hashes, hashes)]


def child_buckets(
    ring: HashingMetadata, children: Iterable[int], keys: Iterable[pa.Table], schema: TableSchema
) -> ChildBuckets:
    """Decide over all keys of the old buckets.

    ring       after the resize
    children   the new buckets
    keys       tables with at least the trimmed primary key, deleted keys too
    memory     8 bytes per key, sorted
    """
    mine = sorted(set(children))
    none = np.zeros(0, np.int32)
    if len(mine) == 1:
        return ChildBuckets(none, none, mine[0])
    part = replace(ring, nodes=tuple(n for n in ring.nodes if n.file_id_prefix and bucket_of_node(n) in mine))
    buckets = np.array([bucket_of_node(n) for n in part.nodes], np.int64)
    names = list(schema.trimmed_primary_keys)
    fields = ring_fields(names, IndexOptions(schema.options))
    packed = [np.zeros(0, np.int64)]
    for rows in keys:
        if rows.num_rows:
            columns = [rows.column(n) for n in names]
            goes = buckets[nodes_of(part, ring_places(record_keys(columns, names), fields))]
            packed.append(hash_columns(columns, schema.key_types).astype(np.int64) << 32 | goes)
    # Sorted by hash, then bucket: of a hash that the ring sends to several the smallest bucket takes all.
    every = np.sort(np.concatenate(packed))
    hashes = (every >> 32).astype(np.int32)
    first = np.append(True, hashes[1:] != hashes[:-1]) if len(hashes) else np.zeros(0, np.bool_)
    return ChildBuckets(hashes[first], (every[first] & 0xFFFFFFFF).astype(np.int32))
