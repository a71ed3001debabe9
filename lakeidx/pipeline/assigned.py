"""What assignment works on and gives, whether it runs in the driver or in tasks: keys of parts, buckets of rows, index files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.bucket import fixed_buckets
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.pipeline.artifacts import IngestReport, StagedPart
from lakeidx.pipeline.keys import RowKeys, key_columns, row_keys
from lakeidx.pipeline.kinds import VALUE_KIND, is_retract
from lakeidx.pipeline.parts import read_part
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict


@dataclass(frozen=True, slots=True)
class PartKeys:
    """Keys and row kinds of one staged part; `retract` is None when all rows are +I or +U."""

    keys: RowKeys
    retract: NDArray[np.bool_] | None


@dataclass(slots=True)
class Assignment:
    """Buckets of all rows of a batch.

    buckets    per part: int32[rows]
    known      per part: bool[rows], True where the hash was known before this row; None when nobody knows (fixed buckets)
    """

    buckets: list[NDArray[np.int32]]
    known: list[NDArray[np.bool_]] | None = None
    new_buckets: int = 0
    figures: dict[str, float] = field(default_factory=dict)


def read_part_keys(metadata: TableMetadata, ingest: IngestReport, part: StagedPart, schema: TableSchema) -> PartKeys:
    """Partition codes and key hashes (buckets, in fixed-bucket tables) of one staged part; only key columns are read."""
    # An append table without buckets needs nothing but the number of rows, which any column tells.
    columns = key_columns(schema) or schema.field_names[:1]
    table = read_part(metadata.store, ingest, part, schema, columns)
    retract = None
    if VALUE_KIND in table.column_names:
        retract = is_retract(table.column(VALUE_KIND).to_numpy())
        if not schema.primary_keys and retract.any():
            raise InvalidInputError("an append table takes no rows of kind -U or -D", path=part.path)
    keys = row_keys(table, schema)
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        buckets = fixed_buckets(
            [table.column(n) for n in schema.bucket_keys],
            [schema.field(n).type for n in schema.bucket_keys],
            schema.bucket,
            schema.table_options.bucket_function_type,
        )
        keys = RowKeys(keys.partitions, keys.codes, buckets)
    return PartKeys(keys, retract)


def load_index_files(
    metadata: TableMetadata, schema: TableSchema, partition: bytes, files: Mapping[int, IndexEntry]
) -> Sequence[tuple[int, NDArray[np.int32]]]:
    """HASH index files of one partition: (bucket, hashes), by bucket.

    errors   CorruptFileError for a file that is damaged or holds another number of hashes than the manifest says
    """
    buckets = []
    for bucket, entry in sorted(files.items()):
        path = metadata.paths.index_file(
            decode_partition_dict(partition, schema), bucket, entry.file_name, external_path=entry.external_path
        )
        hashes = decode_hash_index(metadata.store.get(path), path)
        if len(hashes) != entry.row_count:
            raise CorruptFileError(
                f"the index file has {len(hashes)} hashes, the manifest says {entry.row_count}: rebuild the index",
                path=path,
            )
        buckets.append((bucket, hashes))
    return buckets
