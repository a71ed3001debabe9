"""HASH index files of a table, read and written by their index manifest entries.

The one place that knows where the file of an entry lies (its own path when `_EXTERNAL_PATH` is set) and what must be true of it:
a HASH file has as many hashes as `_ROW_COUNT` says. Deletion vectors lie in `lakeidx.table.deletion_vectors`.

source   org.apache.paimon.index.IndexFileHandler, release 1.4.2
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.hash_index import REBUILD, check_checksum, decode_hash_index, encode_hash_index, has_its_checksum
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.decoded_files import Decoded
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX, decode_partition_dict


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
    from lakeidx.bucket_assignment.hash_set import sorted_distinct

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
