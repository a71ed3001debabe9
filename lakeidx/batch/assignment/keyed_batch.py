"""Keys of a batch, or of a task's share of it, as the index types take them that look at keys; and where they said keys are.

Indexes that keep something outside the table (HBase, the key state) are notified at the commit of what became of the batch's keys,
perhaps by another process than the one that assigned them. For them each placing task leaves ``located-<part>-<task>.arrow``:
columns ``row``, of the part, ``bucket`` and ``partition`` (int32, -1 and the row's own partition where the key was nowhere), the
partitions as hex in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import SourceFile, StagedPart
from lakeidx.batch.assignment.row_keys import PartRows, ReceivedKeys, partition_codes, placing_columns
from lakeidx.batch.parts import read_part
from lakeidx.batch.target_files import located_path, read_columns, share_path, write_columns
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.in_parallel import in_parallel

_PARTITIONS = b"partitions"
_SCHEMA = pa.schema([pa.field(n, pa.int32(), nullable=False) for n in ("row", "bucket", "partition")])
_READ_THREADS = 4


@dataclass(frozen=True, slots=True, eq=False)
class KeyedBatch:
    """Keys of n rows of a batch that a task places, its parts one after another.

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


def keyed_rows(received: ReceivedKeys, schema: TableSchema) -> KeyedBatch:
    """Return received rows as a batch of keys, which owns them from now on."""
    names = list(schema.identity_columns)
    numbers = {p: i for i, p in enumerate(received.names)}
    none32, none = np.zeros(0, np.int32), np.zeros(0, np.bool_)
    codes = [np.array([numbers[p] for p in part.keys.partitions], np.int32)[part.keys.codes] for part in received.parts]
    retract = [np.zeros(len(p.keys), np.bool_) if p.retract is None else p.retract for p in received.parts]
    empty = pa.schema([schema.arrow_schema.field(n) for n in names]).empty_table()
    columns = pa.concat_tables([t.select(names) for t in received.columns] or [empty]).combine_chunks()
    received.columns.clear()
    keys = KeyBatch(
        tuple(received.names),
        np.concatenate([none32, *codes]),
        columns,
        tuple(schema.field(n).type for n in names),
        np.concatenate([none32, *(p.keys.hashes for p in received.parts)]),
    )
    starts = np.cumsum([0, *(len(p.keys) for p in received.parts)]).astype(np.int64)
    return KeyedBatch(keys, np.concatenate([none, *retract]), starts, [p.rows for p in received.parts])


def read_batch(
    store: ObjectStore, parts: Sequence[tuple[StagedPart, SourceFile | None]], schema: TableSchema
) -> tuple[KeyBatch, NDArray[np.bool_]]:
    """Read the keys of parts, each with the landing file it is taken from, and which rows are of kind -U or -D."""
    from lakeidx.key_index.table_view import key_batch

    names = list(schema.identity_columns)

    def read(item: tuple[StagedPart, SourceFile | None]) -> tuple[pa.Table, NDArray[np.bool_]]:
        part, source = item
        table = read_part(store, source, part, schema, placing_columns(schema))
        retract = np.zeros(table.num_rows, np.bool_)
        if VALUE_KIND in table.column_names:
            retract = is_retract(table.column(VALUE_KIND).to_numpy())
            table = table.drop_columns([VALUE_KIND])
        return table, retract

    found = in_parallel(read, parts, threads=_READ_THREADS)
    empty = pa.schema([schema.arrow_schema.field(n) for n in placing_columns(schema)]).empty_table()
    whole = pa.concat_tables([table for table, _ in found] or [empty])
    codes = partition_codes(whole, schema.partition_keys, schema.partition_types)
    retract = np.concatenate([np.zeros(0, np.bool_), *(retract for _, retract in found)])
    return key_batch(whole.select(names).combine_chunks(), schema, codes), retract


def write_located(store: ObjectStore, directory: str, batch: KeyedBatch, located: KeyLocations, task: int) -> None:
    """Write the locations that a placing task found, one file per part."""
    texts = {_PARTITIONS: json.dumps([p.hex() for p in located.partitions]).encode()}
    for i, part in enumerate(batch.places):
        rows, path = batch.of_part(i), share_path(located_path(directory, part.number), task)
        columns = [part.at, located.bucket[rows], located.partition[rows]]
        write_columns(store, path, columns, _SCHEMA.with_metadata(texts))


def read_located(store: ObjectStore, parts: Sequence[tuple[str, Sequence[int], int]]) -> KeyLocations:
    """Return what `write_located` kept, of all parts; files are not in it.

    parts   of each the path of its locations, the tasks that placed its rows, and how many rows it has
    """
    numbers: dict[bytes, int] = {}
    buckets, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for path, tasks, rows in parts:
        bucket, code = np.full(rows, -1, np.int32), np.zeros(rows, np.int32)
        for task in tasks:
            at, found, there = _read_one(store, share_path(path, task), numbers)
            if len(at) and not 0 <= int(at.min()) <= int(at.max()) < rows:
                raise CorruptFileError("the file of located keys has a row that the part does not have", path=path)
            bucket[at], code[at] = found, there
        buckets.append(bucket)
        codes.append(code)
    bucket = np.concatenate(buckets)
    return KeyLocations(
        bucket=bucket,
        partition=np.concatenate(codes),
        partitions=tuple(numbers),
        file=np.full(len(bucket), -1, np.int32),
    )


def _read_one(store: ObjectStore, path: str, numbers: dict[bytes, int]) -> list[NDArray[np.int32]]:
    """Read the columns of a file; the last, partitions, as `numbers` has them, which gets those that are new."""
    columns, described = read_columns(store, path, _SCHEMA)
    try:
        partitions = [bytes.fromhex(p) for p in json.loads(described[_PARTITIONS])]
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError(f"the file of located keys names no partitions: {error}", path=path) from error
    own = columns[-1]
    if len(own) and not 0 <= int(own.min()) <= int(own.max()) < len(partitions):
        raise CorruptFileError("the file of located keys has a partition without a name", path=path)
    known = np.array([numbers.setdefault(p, len(numbers)) for p in partitions], np.int32)
    return [*columns[:-1], known[own] if len(own) else own]
