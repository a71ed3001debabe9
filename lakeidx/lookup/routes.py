"""From keys to the buckets that may hold them: partition by value, then the hash index or the bucket function.

A key whose hash is in no index file of its partition is in no bucket: it costs one probe of a hash map and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.binary_row import encode_row, with_arity
from lakeidx.codec.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import DeletionVectorMeta, IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.index.hash_map import HashMap
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan_plan import deletion_vector_ranges, skips_level_0
from lakeidx.table.view import SnapshotView, decode_partition_dict

_log = logging.getLogger(__name__)
Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class PartitionFiles:
    """What a lookup needs to know of one partition.

    buckets     bucket -> live data files readers see
    index       bucket -> HASH index entry
    vectors     data file name -> (index file name, range)
    hashes      hash -> bucket, made when it is first needed
    unindexed   buckets without a readable hash index: any key may be in them
    """

    buckets: dict[int, list[ManifestEntry]] = field(default_factory=dict)
    index: dict[int, IndexEntry] = field(default_factory=dict)
    vectors: dict[str, tuple[str, DeletionVectorMeta]] = field(default_factory=dict)
    hashes: HashMap | None = None
    unindexed: tuple[int, ...] = ()

    def index_names(self) -> tuple[tuple[int, str], ...]:
        """Which hash index files it has."""
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
    view: SnapshotView, wanted: Collection[bytes], before: Mapping[bytes, PartitionFiles]
) -> dict[bytes, PartitionFiles]:
    """The files of some partitions; hash maps of `before` are taken over where the index files are the same."""
    out = {p: PartitionFiles() for p in wanted}
    hidden = skips_level_0(view.schema)
    for entry in view.entries:
        if entry.bucket >= 0 and not (hidden and entry.file.level == 0):
            out.setdefault(entry.partition, PartitionFiles()).buckets.setdefault(entry.bucket, []).append(entry)
    for partition, by_bucket in view.hash_index().items():
        out.setdefault(partition, PartitionFiles()).index = by_bucket
    for (partition, _, name), place in deletion_vector_ranges(view.index).items():
        out.setdefault(partition, PartitionFiles()).vectors[name] = place
    for partition, files in out.items():
        old = before.get(partition)
        if old is not None and old.hashes is not None and old.index_names() == files.index_names():
            files.hashes = old.hashes
            files.unindexed = tuple(b for b in files.buckets if b not in files.index or b in old.unindexed)
    return out


def split_partitions(keys: pa.Table, schema: TableSchema) -> list[tuple[bytes, Int64s]]:
    """Manifest bytes of each distinct partition and the rows that have it."""
    if not schema.partition_keys:
        return [(EMPTY_ROW, np.arange(keys.num_rows))]
    rows = encode_rows([keys.column(k) for k in schema.partition_keys], schema.partition_types)
    encoded = pc.dictionary_encode(rows.to_arrow())
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    return [
        (with_arity(p.as_py(), len(schema.partition_keys)), order[bounds[i] : bounds[i + 1]].astype(np.int64))
        for i, p in enumerate(encoded.dictionary)
    ]


def find_routes(
    metadata: TableMetadata,
    schema: TableSchema,
    keys: pa.Table,
    rows_of: Sequence[tuple[bytes, Int64s]],
    partitions: Mapping[bytes, PartitionFiles],
) -> Iterator[Route]:
    """Which buckets to ask for which keys.

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
    hashes = None
    if mode is BucketMode.HASH_DYNAMIC:
        hashes = hash_columns([keys.column(n) for n in schema.trimmed_primary_keys], schema.key_types)
    for partition, rows in rows_of:
        files = partitions[partition]
        if not files.buckets:
            continue
        if hashes is not None:
            yield from _by_index(metadata, schema, partition, files, rows, hashes[rows])
        else:
            yield from _by_function(schema, partition, files, rows, keys)


def _rows_that_may_be_in(partition: bytes, keys: pa.Table, shared: Sequence[str], schema: TableSchema) -> Int64s:
    """Keys whose partition columns, where the primary key holds some, are those of the partition."""
    rows = np.arange(keys.num_rows)
    if not shared or not keys.num_rows:
        return rows
    types = list(schema.types_of(list(shared)))
    values = decode_partition_dict(partition, schema)
    wanted = encode_row([values[n] for n in shared], types)
    encoded = encode_rows([keys.column(n) for n in shared], types).to_arrow()
    return np.flatnonzero(pc.equal(encoded, pa.scalar(wanted, encoded.type)).to_numpy(zero_copy_only=False))


def _by_index(
    metadata: TableMetadata,
    schema: TableSchema,
    partition: bytes,
    files: PartitionFiles,
    rows: Int64s,
    hashes: npt.NDArray[np.int32],
) -> Iterator[Route]:
    if files.hashes is None:
        _load_index(metadata, schema, partition, files)
    assert files.hashes is not None
    for bucket, mine in _groups(files.hashes.lookup(hashes), rows):
        if bucket in files.buckets and bucket not in files.unindexed:
            yield Route(partition, bucket, files.buckets[bucket], mine)
    for bucket in files.unindexed:
        yield Route(partition, bucket, files.buckets[bucket], rows)


def _load_index(metadata: TableMetadata, schema: TableSchema, partition: bytes, files: PartitionFiles) -> None:
    values = decode_partition_dict(partition, schema)
    known, without = [], [b for b in files.buckets if b not in files.index]
    for bucket, entry in files.index.items():
        path = metadata.paths.index_file(values, bucket, entry.file_name, external_path=entry.external_path)
        try:
            known.append((bucket, decode_hash_index(metadata.store.get(path), path)))
        except CorruptFileError as error:
            _log.warning("bucket %d is asked for every key: %s", bucket, error)
            if bucket in files.buckets:
                without.append(bucket)
    hashes = HashMap()
    hashes.reserve(sum(len(h) for _, h in known))
    for bucket, found in known:
        hashes.store(np.ascontiguousarray(found, np.int32), bucket)
    files.hashes, files.unindexed = hashes, tuple(without)


def _by_function(
    schema: TableSchema, partition: bytes, files: PartitionFiles, rows: Int64s, keys: pa.Table
) -> Iterator[Route]:
    """By the bucket function, with the number of buckets that each file was written for."""
    by_total: dict[int, dict[int, list[ManifestEntry]]] = {}
    for bucket, entries in files.buckets.items():
        for entry in entries:
            by_total.setdefault(entry.total_buckets, {}).setdefault(bucket, []).append(entry)
    names = schema.bucket_keys or schema.trimmed_primary_keys
    types = [schema.field(n).type for n in names]
    few = keys.select(list(dict.fromkeys(names))).take(pa.array(rows))
    for total, buckets in by_total.items():
        if total <= 0:
            for bucket, entries in buckets.items():
                yield Route(partition, bucket, entries, rows)
            continue
        numbers = fixed_buckets([few.column(n) for n in names], types, total, schema.table_options.bucket_function_type)
        for bucket, mine in _groups(numbers, rows):
            if bucket in buckets:
                yield Route(partition, bucket, buckets[bucket], mine)


def _groups(buckets: npt.NDArray[np.int32], rows: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Rows per bucket; those of bucket -1 are left out."""
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)) if len(ordered) else np.zeros(0, np.int64)
    for i, start in enumerate(starts):
        if ordered[start] >= 0:
            end = starts[i + 1] if i + 1 < len(starts) else len(ordered)
            yield int(ordered[start]), rows[order[start:end]]
