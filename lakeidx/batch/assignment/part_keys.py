"""Keys of staged parts as numbers: partition codes and key hashes, read from key columns alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import SourceFile, StagedPart
from lakeidx.batch.assignment.keyed_batch import PartRows
from lakeidx.batch.keys import RowKeys, key_columns, partition_codes, row_keys
from lakeidx.batch.parts import read_part
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.storage.base import ObjectStore
from lakeidx.table.key_buckets import buckets_by_function


@dataclass(frozen=True, slots=True, eq=False)
class PartKeys:
    """Keys and row kinds of rows of one staged part.

    retract   bool[n]; None when all rows are +I or +U
    ranks     see `lakeidx.batch.assignment.placed.PartPlaces`
    columns   key columns, when they are kept
    """

    rows: PartRows
    keys: RowKeys
    retract: NDArray[np.bool_] | None
    ranks: NDArray[np.int32] | None = None
    columns: pa.Table | None = None


def read_part_keys(
    store: ObjectStore,
    source: SourceFile | None,
    part: StagedPart,
    schema: TableSchema,
    number: int,
    *,
    keep: bool = False,
) -> PartKeys:
    """Partition codes and key hashes (buckets, in fixed-bucket tables) of one staged part; only key columns are read.

    number   of the part in the batch
    keep     also the columns of the key, `TableSchema.identity_columns`, whose hashes are then given
    """
    # An append table without buckets needs nothing but the number of rows, which any column tells.
    columns = key_columns(schema) or schema.field_names[:1]
    table = read_part(store, source, part, schema, columns)
    retract = None
    if VALUE_KIND in table.column_names:
        retract = is_retract(table.column(VALUE_KIND).to_numpy())
        if not schema.primary_keys and retract.any():
            raise InvalidInputError("an append table accepts no rows of kind -U or -D", path=part.path)
    keys = row_keys(table, schema)
    kept = table.select(list(schema.identity_columns)) if keep else None
    if kept is not None and schema.identity_columns != schema.trimmed_primary_keys:
        types = [schema.field(n).type for n in schema.identity_columns]
        keys = RowKeys(keys.partitions, keys.codes, hash_columns(kept.columns, types))
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        keys = RowKeys(keys.partitions, keys.codes, buckets_by_function(schema, table, schema.bucket))
    return PartKeys(PartRows(number, np.arange(len(keys), dtype=np.int32)), keys, retract, columns=kept)


def read_part_partitions(
    store: ObjectStore, source: SourceFile | None, part: StagedPart, schema: TableSchema
) -> tuple[bytes, ...]:
    """Read the distinct partitions of one staged part; only partition columns are read."""
    columns = schema.partition_keys or schema.field_names[:1]
    table = read_part(store, source, part, schema, columns)
    return partition_codes(table, schema.partition_keys, schema.partition_types)[0]
