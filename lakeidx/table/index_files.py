"""HASH index files and deletion vectors of a table, read and written by their index manifest entries.

The one place that knows where the file of an entry lies (its own path when `_EXTERNAL_PATH` is set) and what must be true of it:
a HASH file has as many hashes as `_ROW_COUNT` says, a vector as many positions as its `_CARDINALITY`.

source   org.apache.paimon.index.IndexFileHandler, org.apache.paimon.deletionvectors.DeletionVectorsIndexFile, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.arrays import frozen
from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.hash_index import REBUILD, check_checksum, decode_hash_index, encode_hash_index, has_its_checksum
from lakeidx.format.index_manifest import DeletionVectorMeta, IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.format.paths import NewFileNames
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.decoded_files import Decoded
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX, decode_partition_dict

if TYPE_CHECKING:
    from lakeidx.format.deletion_vector import Positions


@dataclass(frozen=True, slots=True)
class StoredVector:
    """Place of a data file's deletion vector.

    file_name       the index file
    external_path   its whole path, when it is not in the table
    range           the vector's bytes in it
    """

    file_name: str
    external_path: str | None
    range: DeletionVectorMeta


def index_file_path(metadata: TableMetadata, schema: TableSchema, entry: IndexEntry) -> str:
    """Return the path of an entry's index file.

    schema   any version: partition columns never change
    """
    values = decode_partition_dict(entry.partition, schema)
    return metadata.paths.index_file(values, entry.bucket, entry.file_name, external_path=entry.external_path)


def read_hash_index(metadata: TableMetadata, schema: TableSchema, entry: IndexEntry) -> NDArray[np.int32]:
    """Read the hashes of a HASH index file in file order, int32[n].

    errors   CorruptFileError for a file with another number of hashes than the manifest says, or with another checksum than its
             name says; NotFoundError
    """
    path = index_file_path(metadata, schema, entry)
    try:
        data = metadata.store.get(path)
    except NotFoundError as error:
        raise NotFoundError(f"no such file: unless its snapshot has expired, {REBUILD}", path=path) from error
    if len(data) != 4 * entry.row_count:
        found = f"{len(data) // 4} hashes" + (f" and {len(data) % 4} bytes" if len(data) % 4 else "")
        raise CorruptFileError(
            f"the hash index file has {found}, the manifest says {entry.row_count}: {REBUILD}", path=path
        )
    check_checksum(data, path)
    return decode_hash_index(data)


def examine_hash_index(
    metadata: TableMetadata, schema: TableSchema, entry: IndexEntry
) -> tuple[int | None, NDArray[np.int32] | None, bool]:
    """Read a HASH index file as it is, for rules that compare it with its entry.

    returns   its bytes, None when it is not there; its hashes in file order, None also when it is torn; whether it has the checksum
              in its name
    """
    path = index_file_path(metadata, schema, entry)
    try:
        data = metadata.store.get(path)
    except NotFoundError:
        return None, None, True
    return len(data), decode_hash_index(data) if len(data) % 4 == 0 else None, has_its_checksum(data, path)


def known_hashes(metadata: TableMetadata, schema: TableSchema, entry: IndexEntry) -> NDArray[np.int32]:
    """Return the hashes of a HASH index file ascending, int32[n], read-only: those this process has of it, or those in the file.

    A file's name is never used again, so they hold also when it is gone since.
    errors   as `read_hash_index`
    """
    path = index_file_path(metadata, schema, entry)
    found = metadata.hash_files.find(path)
    if found is not None and found.size == 4 * entry.row_count:
        kept: NDArray[np.int32] = found.value
        return kept
    hashes = frozen(sorted_distinct(read_hash_index(metadata, schema, entry)))
    metadata.hash_files.keep(path, Decoded(hashes, 4 * entry.row_count, hashes.nbytes))
    return hashes


def follow_hashes(
    metadata: TableMetadata, schema: TableSchema, old: IndexEntry, new: IndexEntry, hashes: NDArray[np.int32]
) -> None:
    """Keep the content of a new HASH index file if this process has that of the file it replaces.

    hashes   int32[n], ascending
    """
    if index_file_path(metadata, schema, old) in metadata.hash_files:
        kept = Decoded(frozen(hashes), new.file_size, hashes.nbytes)
        metadata.hash_files.keep(index_file_path(metadata, schema, new), kept)


def write_hash_index(
    metadata: TableMetadata,
    schema: TableSchema,
    partition: bytes,
    bucket: int,
    hashes: NDArray[np.int32],
    names: NewFileNames,
) -> IndexEntry:
    """Write a bucket's HASH index file; return the ADD entry, which replaces the one that the bucket has.

    hashes   int32[n], each once; kept in the given order
    """
    data = encode_hash_index(hashes)
    entry = IndexEntry(
        kind=FileKind.ADD,
        partition=partition,
        bucket=bucket,
        index_type=HASH_INDEX,
        file_name=names.index_name(crc32(data)),
        file_size=len(data),
        row_count=len(hashes),
    )
    metadata.store.put(index_file_path(metadata, schema, entry), data)
    return entry


def write_deletion_vectors(
    metadata: TableMetadata,
    schema: TableSchema,
    partition: bytes,
    bucket: int,
    vectors: Mapping[str, Iterable[int]],
    names: NewFileNames,
) -> IndexEntry:
    """Write the deletion vectors of all data files of a bucket; return the ADD entry, which replaces the one that the bucket has.

    vectors   data file name -> deleted rows
    """
    from lakeidx.format.deletion_vector import encode_deletion_vectors

    bitmap64 = schema.table_options.deletion_vectors_bitmap64
    data, ranges = encode_deletion_vectors(vectors, bitmap64=bitmap64)
    entry = IndexEntry(
        kind=FileKind.ADD,
        partition=partition,
        bucket=bucket,
        index_type=DELETION_VECTORS,
        file_name=names.index_name(),
        file_size=len(data),
        row_count=len(ranges),
        dv_ranges=ranges,
    )
    metadata.store.put(index_file_path(metadata, schema, entry), data)
    return entry


def deletion_vectors(index: Iterable[IndexEntry]) -> dict[tuple[bytes, int, str], StoredVector]:
    """Return the location of each data file's deletion vector, by (partition, bucket, data file name)."""
    return {
        (entry.partition, entry.bucket, meta.data_file_name): StoredVector(entry.file_name, entry.external_path, meta)
        for entry in index
        if entry.index_type == DELETION_VECTORS
        for meta in entry.dv_ranges or ()
    }


def read_deletion_vector(
    metadata: TableMetadata, schema: TableSchema, partition: bytes, bucket: int, vector: StoredVector
) -> Positions:
    """Read the deleted rows of one data file; only the vector's bytes are read.

    errors   CorruptFileError for bytes that are no vector, or one of another cardinality than the manifest says;
             NotFoundError
    """
    from lakeidx.format.deletion_vector import decode_vector, vector_range

    values = decode_partition_dict(partition, schema)
    path = metadata.paths.index_file(values, bucket, vector.file_name, external_path=vector.external_path)
    return decode_vector(metadata.store.get_range(path, *vector_range(vector.range)), vector.range, path)
