"""Deletion vectors of a table, read and written by their index manifest entries: which vector a data file has, and where it lies.

A vector has as many positions as its `_CARDINALITY` says.

source   org.apache.paimon.deletionvectors.DeletionVectorsIndexFile, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import DeletionVectorMeta, IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.index_files import index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, decode_partition_dict

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
