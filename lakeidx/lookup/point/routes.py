"""Routes from keys to the buckets that may hold them: partition by value, then the hash index or the bucket function.

A key whose hash is in no index file of its partition is in no bucket: it costs one probe of a hash map and nothing else. The map
of a large index takes longer to make than all else of a lookup, so the first few keys are looked up in its files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.table.deletion_vectors import StoredVector, deletion_vectors
from lakeidx.table.key_buckets import KeyBuckets, buckets_by_function, find_buckets, key_hashes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.table.view import SnapshotView, decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel, requests_of

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class PartitionFiles:
    """Files of one partition that a lookup may need.

    buckets       bucket -> live data files readers see
    index         bucket -> HASH index entry
    vectors       data file name -> where its deletion vector lies
    hashes        the whole hash index, loaded when it is needed again
    was_streamed  True once keys were looked up in the files of the hash index
    """

    buckets: dict[int, list[ManifestEntry]] = field(default_factory=dict)
    index: dict[int, IndexEntry] = field(default_factory=dict)
    vectors: dict[str, StoredVector] = field(default_factory=dict)
    hashes: KeyBuckets | None = None
    was_streamed: bool = False

    def index_names(self) -> tuple[tuple[int, str], ...]:
        """Return the names of its hash index files."""
        return tuple(sorted((b, e.file_name) for b, e in self.index.items()))


@dataclass(frozen=True, slots=True)
class Route:
    """Keys that may be in a bucket.

    rows   int64[m]: which keys
    """

    partition: bytes
    bucket: int
    files: Sequence[ManifestEntry]
    rows: Int64s


def partition_files(
    view: SnapshotView, wanted: Collection[bytes], before: Mapping[bytes, PartitionFiles], *, unseen: bool = False
) -> dict[bytes, PartitionFiles]:
    """Load the files of some partitions; hash maps of `before` are taken over where the index files are the same.

    unseen   also those of level 0 that readers do not see before a compaction
    """
    out = {p: PartitionFiles() for p in wanted}
    hidden = not unseen and skips_level_0(view.schema)
    for entry in view.entries:
        if entry.bucket >= 0 and not (hidden and entry.file.level == 0):
            out.setdefault(entry.partition, PartitionFiles()).buckets.setdefault(entry.bucket, []).append(entry)
    for partition, by_bucket in view.hash_index().items():
        out.setdefault(partition, PartitionFiles()).index = by_bucket
    for (partition, _, name), place in deletion_vectors(view.index).items():
        out.setdefault(partition, PartitionFiles()).vectors[name] = place
    for partition, files in out.items():
        old = before.get(partition)
        if old is not None and old.hashes is not None and old.index_names() == files.index_names():
            files.hashes = old.hashes
    return out


def split_partitions(keys: pa.Table, schema: TableSchema) -> list[tuple[bytes, Int64s]]:
    """Split rows by partition: manifest bytes of each distinct partition and its rows."""
    if not schema.partition_keys:
        return [(EMPTY_ROW, np.arange(keys.num_rows))]
    rows = encode_rows([keys.column(k) for k in schema.partition_keys], schema.partition_types)
    encoded = pc.dictionary_encode(rows.to_arrow())
    groups = group_rows(encoded.indices.to_numpy(), len(encoded.dictionary))
    return [
        (with_arity(p.as_py(), len(schema.partition_keys)), of_partition)
        for p, of_partition in zip(encoded.dictionary, groups, strict=True)
    ]


def find_routes(
    metadata: TableMetadata,
    schema: TableSchema,
    keys: pa.Table,
    rows_of: Sequence[tuple[bytes, Int64s]],
    partitions: Mapping[bytes, PartitionFiles],
) -> Iterator[Route]:
    """Find the buckets in which to look up each key.

    rows_of   of `split_partitions`; in tables whose key does not hold the partition every partition is asked
    """
    mode = schema.bucket_mode
    if mode is BucketMode.KEY_DYNAMIC:
        shared = [n for n in schema.partition_keys if n in schema.primary_keys]
        for partition, files in partitions.items():
            rows = _rows_that_may_be_in(partition, keys, shared, schema)
            for bucket, entries in files.buckets.items() if len(rows) else ():
                yield Route(partition, bucket, entries, rows)
        return
    placed = [(partition, partitions[partition], rows) for partition, rows in rows_of if partitions[partition].buckets]
    if mode is not BucketMode.HASH_DYNAMIC:
        for partition, files, rows in placed:
            yield from _by_function(schema, partition, files, rows, keys)
        return
    hashes = key_hashes(schema, keys)
    largest = max((sum(e.file_size for e in files.index.values()) for _, files, _ in placed), default=0)
    indexes = in_parallel(
        lambda place: _hash_index(metadata, schema, place[1], hashes[place[2]]),
        placed,
        threads=requests_of(metadata.store, largest),
    )
    for (partition, files, rows), index in zip(placed, indexes, strict=True):
        yield from _by_index(index, partition, files, rows, hashes[rows])


def _rows_that_may_be_in(partition: bytes, keys: pa.Table, shared: Sequence[str], schema: TableSchema) -> Int64s:
    """Return the keys whose partition columns, where the primary key has some, are those of the partition."""
    rows = np.arange(keys.num_rows)
    if not shared or not keys.num_rows:
        return rows
    types = list(schema.types_of(list(shared)))
    values = decode_partition_dict(partition, schema)
    wanted = encode_row([values[n] for n in shared], types)
    encoded = encode_rows([keys.column(n) for n in shared], types).to_arrow()
    return np.flatnonzero(pc.equal(encoded, pa.scalar(wanted, encoded.type)).to_numpy(zero_copy_only=False))


def _by_index(
    index: KeyBuckets, partition: bytes, files: PartitionFiles, rows: Int64s, hashes: npt.NDArray[np.int32]
) -> Iterator[Route]:
    for bucket, mine in _groups(index.of(hashes), rows):
        if bucket in files.buckets and bucket not in index.unreadable:
            yield Route(partition, bucket, files.buckets[bucket], mine)
    # Any key may be in a bucket without a readable index.
    for bucket, entries in files.buckets.items():
        if bucket not in files.index or bucket in index.unreadable:
            yield Route(partition, bucket, entries, rows)


def _hash_index(
    metadata: TableMetadata, schema: TableSchema, files: PartitionFiles, hashes: npt.NDArray[np.int32]
) -> KeyBuckets:
    """Return a partition's hash index: what it has of the first hashes asked for, the whole one from then on."""
    if files.hashes is not None:
        return files.hashes
    entries = list(files.index.values())
    if not files.was_streamed:
        files.was_streamed = True
        return find_buckets(metadata, schema, entries, hashes, skip_damaged=True)
    files.hashes = find_buckets(metadata, schema, entries, None, skip_damaged=True)
    return files.hashes


def _by_function(
    schema: TableSchema, partition: bytes, files: PartitionFiles, rows: Int64s, keys: pa.Table
) -> Iterator[Route]:
    """Compute buckets by the bucket function, with the number of buckets that each file was written for."""
    by_total: dict[int, dict[int, list[ManifestEntry]]] = {}
    for bucket, entries in files.buckets.items():
        for entry in entries:
            by_total.setdefault(entry.total_buckets, {}).setdefault(bucket, []).append(entry)
    few = keys.select(list(dict.fromkeys(schema.bucket_keys or schema.trimmed_primary_keys))).take(pa.array(rows))
    for total, buckets in by_total.items():
        if total <= 0:
            for bucket, entries in buckets.items():
                yield Route(partition, bucket, entries, rows)
            continue
        for bucket, mine in _groups(buckets_by_function(schema, few, total), rows):
            if bucket in buckets:
                yield Route(partition, bucket, buckets[bucket], mine)


def _groups(buckets: npt.NDArray[np.int32], rows: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Return the rows per bucket; those of bucket -1 are left out."""
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    start = ordered.searchsorted(np.int32(0))
    while start < len(ordered):
        end = ordered.searchsorted(ordered[start], side="right")
        yield int(ordered[start]), rows[order[start:end]]
        start = end


def in_order(route: Route, schema: TableSchema) -> list[ManifestEntry]:
    """Return the files of a bucket in the order of the lookups."""
    return sorted(route.files, key=_by_level if schema.table_options.merges_by_level else _newest_first)


def _newest_first(entry: ManifestEntry) -> tuple[int, int]:
    return 0, -entry.file.max_sequence_number


def _by_level(entry: ManifestEntry) -> tuple[int, int]:
    """Return a sort key: level 0 first, its newest first; then level by level."""
    return entry.file.level, -entry.file.max_sequence_number
