"""The keys of a whole batch for a key index, and what the key index said, kept for the time around the commit.

Indexes that keep something outside the table (HBase, the key state) are told at the commit what became of the batch's keys,
perhaps by another process than the one that assigned them. For them assignment leaves ``located-<i>.arrow`` per part: columns
``bucket`` and ``partition`` (int32, -1 and the row's own partition where the key was nowhere), the partitions as hex in the
file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.arrow_files import read_columns, write_columns
from lakeidx.batch.artifacts import IngestReport, StagedPart
from lakeidx.batch.keys import key_columns, partition_codes
from lakeidx.batch.parts import read_part
from lakeidx.batch.target_files import share_path
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from lakeidx.key_index.table_view import key_batch
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel

_PARTITIONS = b"partitions"
_SCHEMA = pa.schema([pa.field("bucket", pa.int32(), nullable=False), pa.field("partition", pa.int32(), nullable=False)])
_READ_THREADS = 4


@dataclass(frozen=True, slots=True, eq=False)
class PartRows:
    """Rows of one staged part.

    number   of the part
    at       int32[n] their positions in it, ascending; None: all of them
    """

    number: int
    at: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class KeyedBatch:
    """Keys of n rows of a batch, its parts one after another: of all rows, or of a task's share of them.

    retract   bool[n] rows of kind -U or -D
    starts    int64[parts + 1]: rows starts[i] .. starts[i + 1] are those of the i-th part
    places    of each part: its number, and where its rows stand in it
    """

    keys: KeyBatch
    retract: NDArray[np.bool_]
    starts: NDArray[np.int64]
    places: Sequence[PartRows]

    def of_part(self, part: int) -> slice:
        """Return the rows of the i-th part."""
        return slice(int(self.starts[part]), int(self.starts[part + 1]))

    def split_rows(self, rows: NDArray[np.int64]) -> list[slice]:
        """Split some row numbers (ascending) by part, as slices of them."""
        return [slice(a, b) for a, b in pairwise(np.searchsorted(rows, self.starts).tolist())]


def read_batch(metadata: TableMetadata, ingest: IngestReport, schema: TableSchema) -> KeyedBatch:
    """Read key and partition columns and row kinds of all parts; memory follows the batch's keys."""
    names = list(schema.identity_columns)

    def read(part: StagedPart) -> tuple[pa.Table, NDArray[np.bool_]]:
        table = read_part(metadata.store, ingest.source_of(part), part, schema, key_columns(schema))
        retract = np.zeros(table.num_rows, np.bool_)
        if VALUE_KIND in table.column_names:
            retract = is_retract(table.column(VALUE_KIND).to_numpy())
            table = table.drop_columns([VALUE_KIND])
        return table, retract

    found = in_parallel(read, ingest.parts, threads=_READ_THREADS)
    tables, retracts = [table for table, _ in found], [retract for _, retract in found]
    if tables:
        whole = pa.concat_tables(tables)
    else:
        whole = pa.schema([schema.arrow_schema.field(n) for n in key_columns(schema)]).empty_table()
    codes = partition_codes(whole, schema.partition_keys, schema.partition_types)
    starts = np.cumsum([0, *(t.num_rows for t in tables)]).astype(np.int64)
    retract = np.concatenate([np.zeros(0, np.bool_), *retracts])
    keys = key_batch(whole.select(names).combine_chunks(), schema, codes)
    return KeyedBatch(keys, retract, starts, [PartRows(i) for i in range(len(tables))])


def write_located(
    store: ObjectStore, directory: str, batch: KeyedBatch, located: KeyLocations, task: int | None
) -> tuple[str, ...]:
    """Write the key index's locations, one file per part; returns the paths.

    task   the placing task whose share the rows are; None: all rows of the batch are
    """
    texts = json.dumps([p.hex() for p in located.partitions])
    schema = _SCHEMA.with_metadata({_PARTITIONS: texts.encode()})
    paths = []
    for i, part in enumerate(batch.places):
        rows = batch.of_part(i)
        path = f"{directory}/located-{part.number:05d}.arrow"
        paths.append(path if task is None else share_path(path, task))
        write_columns(store, paths[-1], [located.bucket[rows], located.partition[rows]], schema)
    return tuple(paths)


def read_located(store: ObjectStore, paths: Sequence[str]) -> KeyLocations:
    """Return what `write_located` kept, of all parts; files are not in it."""
    buckets, numbers = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    partitions: tuple[bytes, ...] = ()
    for path in paths:
        (bucket, number), described = read_columns(store, path, _SCHEMA)
        try:
            partitions = tuple(bytes.fromhex(p) for p in json.loads(described[_PARTITIONS]))
        except (KeyError, ValueError, TypeError) as error:
            raise CorruptFileError(f"the file of located keys names no partitions: {error}", path=path) from error
        if len(number) and not 0 <= int(number.min()) <= int(number.max()) < len(partitions):
            raise CorruptFileError("the file of located keys has a partition without a name", path=path)
        buckets.append(bucket)
        numbers.append(number)
    bucket = np.concatenate(buckets).astype(np.int32)
    return KeyLocations(
        bucket=bucket,
        partition=np.concatenate(numbers).astype(np.int32),
        partitions=partitions,
        file=np.full(len(bucket), -1, np.int32),
    )
