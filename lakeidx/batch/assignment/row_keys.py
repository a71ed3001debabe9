"""Keys of staged rows: as partition codes and key hashes of whole columns, on their way to placing tasks, and as those take them.

Rows of a part travel as Arrow columns:

====================  ==========  =========================================================================================
column                type        content
====================  ==========  =========================================================================================
lakeidx.position      int32       position in the part, ascending
lakeidx.hash          int32       hash of the trimmed primary key; of tables with fixed buckets the bucket
lakeidx.partition     dictionary  the partition as manifest bytes, numbered in as few bytes as the part's partitions need
lakeidx.retract       bool        the row is a delete; left out when none is
key columns                       where the index type looks at keys
====================  ==========  =========================================================================================

source   org.apache.paimon.table.sink.RowPartitionKeyExtractor, release 1.4.2 (projections)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.batch.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.batch.parts import read_part
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.storage.base import ObjectStore
from lakeidx.table.key_buckets import buckets_by_function
from lakeidx.tasks.routed_rows import Block
from lakeidx.types import DataType

_POSITION, _HASH, _PARTITION, _RETRACT = (f"lakeidx.{n}" for n in ("position", "hash", "partition", "retract"))

#: A staged part: its number, and the landing file it is taken from by reference.
PartItem = tuple[int, StagedPart, SourceFile | None]


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Keys of n rows.

    partitions   distinct partition values as manifest bytes
    codes        int32[n]: which of them each row has
    hashes       int32[n]: hash of the trimmed primary key (of the bucket key in fixed-bucket tables, 0 in append
                 tables)
    """

    partitions: tuple[bytes, ...]
    codes: NDArray[np.int32]
    hashes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.hashes)


def placing_columns(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns that decide the target of a row: partition keys, then trimmed primary key or bucket key, each once."""
    return tuple(dict.fromkeys((*schema.partition_keys, *schema.trimmed_primary_keys, *schema.bucket_keys)))


def row_keys(table: pa.Table, schema: TableSchema) -> RowKeys:
    """Partition codes and key hashes of rows that have at least `key_columns(schema)`."""
    partitions, codes = partition_codes(table, schema.partition_keys, schema.partition_types)
    names = schema.trimmed_primary_keys
    if not names:
        return RowKeys(partitions, codes, np.zeros(table.num_rows, np.int32))
    types = [schema.field(n).type for n in names]
    return RowKeys(partitions, codes, hash_columns([table.column(n) for n in names], types))


def partition_codes(
    table: pa.Table, keys: Sequence[str], types: Sequence[DataType]
) -> tuple[tuple[bytes, ...], NDArray[np.int32]]:
    """Assign numbers to the distinct partition values of rows, in order of first appearance.

    returns  manifest bytes of each distinct value, and int32[n] codes
    """
    n = table.num_rows
    if not keys:
        return (EMPTY_ROW,), np.zeros(n, dtype=np.int32)
    if n == 0:
        return (), np.zeros(0, dtype=np.int32)
    combined: NDArray[np.int64] | None = None
    for name in keys:
        column = table.column(name).combine_chunks()
        array = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        encoded = pc.dictionary_encode(array, null_encoding="encode")
        codes = np.asarray(encoded.indices).astype(np.int64)
        combined = codes if combined is None else combined * (len(encoded.dictionary) + 1) + codes
    assert combined is not None
    firsts, compact = _number(combined)
    sample = table.select(list(keys)).take(pa.array(firsts))
    rows = encode_rows([sample.column(k) for k in keys], list(types))
    return tuple(with_arity(rows[i], len(keys)) for i in range(len(firsts))), compact


def _number(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first position of each distinct value in order of appearance, and the number of each row's value."""
    encoded = pc.dictionary_encode(pa.array(values))
    codes = np.asarray(encoded.indices).astype(np.int32)
    firsts = np.full(len(encoded.dictionary), len(values), dtype=np.int64)
    # Arrow numbers values as they appear, so the first row of code c is where the running maximum reaches c.
    running = np.maximum.accumulate(codes)
    steps = np.flatnonzero(np.diff(running, prepend=-1))
    firsts[: len(steps)] = steps
    return firsts, codes


@dataclass(frozen=True, slots=True, eq=False)
class PartRows:
    """Rows of one staged part.

    number   of the part
    at       int32[n] their positions in it, ascending
    """

    number: int
    at: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class PartKeys:
    """Keys and row kinds of rows of one staged part.

    retract   bool[n]; None when all rows are +I or +U
    ranks     see `lakeidx.batch.assignment.placement.PartPlaces`
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
    columns = placing_columns(schema) or schema.field_names[:1]
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


def part_items(ingest: IngestReport) -> list[PartItem]:
    """Return what a map task needs of each part."""
    return [(number, part, ingest.source_of(part)) for number, part in enumerate(ingest.parts)]


def rows_to_route(keys: RowKeys, retract: NDArray[np.bool_] | None, columns: pa.Table | None = None) -> pa.Table:
    """Return the rows of one part for the tasks that place them; `columns`: its key columns, where they are looked at."""
    codes = keys.codes.astype(np.min_scalar_type(-max(len(keys.partitions), 1)))
    partition = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(keys.partitions, pa.binary()))
    out = {
        _POSITION: pa.array(np.arange(len(keys), dtype=np.int32)),
        _HASH: pa.array(keys.hashes),
        _PARTITION: partition,
    }
    if retract is not None:
        out[_RETRACT] = pa.array(retract)
    return pa.table({**out, **({} if columns is None else {n: columns.column(n) for n in columns.column_names})})


def is_of_part(block: Block) -> bool:
    """Return True for rows of a part."""
    return _POSITION in block.rows.column_names


@dataclass(slots=True)
class ReceivedKeys:
    """Rows of one task, part after part.

    names    partitions that came before, each held once
    """

    parts: list[PartKeys] = field(default_factory=list)
    columns: list[pa.Table] = field(default_factory=list)
    names: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Take the rows of one part; partitions without a row are left out."""
        rows = block.rows
        # Copied: a column that is kept as it came keeps the whole block.
        positions, hashes = (rows.column(n).to_numpy().astype(np.int32) for n in (_POSITION, _HASH))
        column = rows.column(_PARTITION).combine_chunks()
        codes = np.asarray(column.indices).astype(np.int32)
        ranks = np.flatnonzero(np.bincount(codes, minlength=len(column.dictionary))).astype(np.int32)
        partitions = [self.names.setdefault(p, p) for p in column.dictionary.take(pa.array(ranks)).to_pylist()]
        if len(ranks) < len(column.dictionary):
            number = np.zeros(len(column.dictionary), np.int32)
            number[ranks] = np.arange(len(ranks), dtype=np.int32)
            codes = number[codes]
        if len(ranks) == 1:
            codes = np.broadcast_to(np.int32(0), len(codes))
        retract = None
        if _RETRACT in rows.column_names:
            retract = rows.column(_RETRACT).to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
        keys = RowKeys(tuple(partitions), codes, hashes)
        self.parts.append(PartKeys(PartRows(block.order, positions), keys, retract, ranks))
        self.columns.append(rows.select([n for n in rows.column_names if not n.startswith("lakeidx.")]))
