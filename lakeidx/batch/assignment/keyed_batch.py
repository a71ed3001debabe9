"""The keys of a whole batch for a key index, and the index's answers, kept until the commit has ended.

Indexes that keep something outside the table (HBase, the key state) are notified at the commit of what became of the batch's keys,
perhaps by another process than the one that assigned them. For them assignment leaves ``located-<i>.arrow`` per part: columns
``bucket`` and ``partition`` (int32, -1 and the row's own partition where the key was nowhere), the partitions as hex in the
file's metadata. Rows that tasks placed: ``located-<i>-<task>.arrow``, with a column of the part's rows before.
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
from lakeidx.batch.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.batch.keys import key_columns, partition_codes
from lakeidx.batch.parts import read_part
from lakeidx.batch.target_files import share_path
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.in_parallel import in_parallel

_PARTITIONS = b"partitions"
_SCHEMA = pa.schema([pa.field("bucket", pa.int32(), nullable=False), pa.field("partition", pa.int32(), nullable=False)])
_SHARE_SCHEMA = _SCHEMA.insert(0, pa.field("row", pa.int32(), nullable=False))
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
    places    of each part: its number, and where its rows are in it
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


def sourced_parts(ingest: IngestReport) -> list[tuple[StagedPart, SourceFile | None]]:
    """Return the parts of a batch, each with the landing file that it is taken from by reference."""
    return [(part, ingest.source_of(part)) for part in ingest.parts]


def read_batch(
    store: ObjectStore, parts: Sequence[tuple[StagedPart, SourceFile | None]], schema: TableSchema
) -> KeyedBatch:
    """Read key and partition columns and row kinds of parts (`sourced_parts`); memory follows their keys."""
    from lakeidx.key_index.table_view import key_batch

    names = list(schema.identity_columns)

    def read(item: tuple[StagedPart, SourceFile | None]) -> tuple[pa.Table, NDArray[np.bool_]]:
        part, source = item
        table = read_part(store, source, part, schema, key_columns(schema))
        retract = np.zeros(table.num_rows, np.bool_)
        if VALUE_KIND in table.column_names:
            retract = is_retract(table.column(VALUE_KIND).to_numpy())
            table = table.drop_columns([VALUE_KIND])
        return table, retract

    found = in_parallel(read, parts, threads=_READ_THREADS)
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


def located_path(directory: str, part: int) -> str:
    """Return the path of the locations that a key index found for a part."""
    return f"{directory}/located-{part:05d}.arrow"


def write_located(
    store: ObjectStore, directory: str, batch: KeyedBatch, located: KeyLocations, task: int | None
) -> None:
    """Write the key index's locations, one file per part.

    task   the placing task whose share the rows are; None: all rows of the batch are
    """
    texts = {_PARTITIONS: json.dumps([p.hex() for p in located.partitions]).encode()}
    for i, part in enumerate(batch.places):
        rows, path = batch.of_part(i), located_path(directory, part.number)
        columns = [located.bucket[rows], located.partition[rows]]
        if task is None:
            write_columns(store, path, columns, _SCHEMA.with_metadata(texts))
        else:
            at = np.arange(len(columns[0]), dtype=np.int32) if part.at is None else part.at
            write_columns(store, share_path(path, task), [at, *columns], _SHARE_SCHEMA.with_metadata(texts))


def read_located(
    store: ObjectStore, paths: Sequence[str], tasks: Sequence[tuple[int, ...]] = (), rows: Sequence[int] = ()
) -> KeyLocations:
    """Return what `write_located` kept, of all parts; files are not in it.

    paths   of each part
    tasks   of each part, those that placed its rows; none: one process placed all
    rows    of each part, with tasks
    """
    numbers: dict[bytes, int] = {}
    buckets, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for i, path in enumerate(paths):
        if not tasks:
            bucket, code = _read_one(store, path, _SCHEMA, numbers)
        else:
            bucket, code = np.full(rows[i], -1, np.int32), np.zeros(rows[i], np.int32)
            for task in tasks[i]:
                at, found, there = _read_one(store, share_path(path, task), _SHARE_SCHEMA, numbers)
                if len(at) and not 0 <= int(at.min()) <= int(at.max()) < rows[i]:
                    raise CorruptFileError("the file of located keys has a row that the part does not have", path=path)
                bucket[at], code[at] = found, there
        buckets.append(bucket)
        codes.append(code)
    bucket = np.concatenate(buckets).astype(np.int32)
    return KeyLocations(
        bucket=bucket,
        partition=np.concatenate(codes).astype(np.int32),
        partitions=tuple(numbers),
        file=np.full(len(bucket), -1, np.int32),
    )


def _read_one(store: ObjectStore, path: str, schema: pa.Schema, numbers: dict[bytes, int]) -> list[NDArray[np.int32]]:
    """Read the columns of a file; the last, partitions, as `numbers` has them, which gets those that are new."""
    columns, described = read_columns(store, path, schema)
    try:
        partitions = [bytes.fromhex(p) for p in json.loads(described[_PARTITIONS])]
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError(f"the file of located keys names no partitions: {error}", path=path) from error
    own = columns[-1]
    if len(own) and not 0 <= int(own.min()) <= int(own.max()) < len(partitions):
        raise CorruptFileError("the file of located keys has a partition without a name", path=path)
    known = np.array([numbers.setdefault(p, len(numbers)) for p in partitions], np.int32)
    return [*columns[:-1], known[own] if len(own) else own]
