"""Keys of staged rows as numbers: partition codes and key hashes of whole columns.

source   org.apache.paimon.table.sink.RowPartitionKeyExtractor, release 1.4.2 (projections)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import DataType


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


def key_columns(schema: TableSchema) -> tuple[str, ...]:
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
