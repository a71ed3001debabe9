"""Keys on their way to the tasks that place them: a part's rows as Arrow columns, and what a task makes of them.

====================  ==========  =========================================================================================
column                type        content
====================  ==========  =========================================================================================
lakeidx.position      int32       position in the part, ascending
lakeidx.hash          int32       hash of the trimmed primary key; of tables with fixed buckets the bucket
lakeidx.partition     dictionary  the partition as manifest bytes, numbered in as few bytes as the part's partitions need
lakeidx.retract       bool        the row is a delete; left out when none is
key columns                       where the index type looks at keys
====================  ==========  =========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.batch.assignment.keyed_batch import KeyedBatch, PartRows
from lakeidx.batch.assignment.part_keys import PartKeys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.keys import RowKeys
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.locations import Int32s, KeyBatch
from lakeidx.tasks.routed_rows import Block

_POSITION, _HASH, _PARTITION, _RETRACT = (f"lakeidx.{n}" for n in ("position", "hash", "partition", "retract"))

#: A staged part: its number, and the landing file it is taken from by reference.
PartItem = tuple[int, StagedPart, SourceFile | None]


def part_items(ingest: IngestReport) -> list[PartItem]:
    """Return what a map task needs of each part."""
    return [(number, part, ingest.source_of(part)) for number, part in enumerate(ingest.parts)]


def partition_hash(partition: bytes) -> int:
    """Return the hash of a partition, as manifests have it, which selects the placing task of its first keys."""
    return hash_words(split_arity(partition)[1])


def owners_of(work: PlaceWork, keys: RowKeys) -> Int32s:
    """Return the placing task of each row, int32[n]; a key of a global index has one task in all partitions."""
    if work.index.is_global:
        return work.plan.assigner_of(0, keys.hashes)
    of_partitions = np.array([partition_hash(p) for p in keys.partitions], np.int32)
    return work.plan.assigner_of(of_partitions[keys.codes], keys.hashes)


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

    def keyed(self, schema: TableSchema) -> KeyedBatch:
        """Return them as a batch of keys, which owns them from now on."""
        names = list(schema.identity_columns)
        numbers = {p: i for i, p in enumerate(self.names)}
        none32, none = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        codes = [np.array([numbers[p] for p in part.keys.partitions], np.int32)[part.keys.codes] for part in self.parts]
        retract = [none if p.retract is None else p.retract for p in self.parts]
        retract = [np.zeros(len(p.keys), np.bool_) if p.retract is None else p.retract for p in self.parts]
        empty = pa.schema([schema.arrow_schema.field(n) for n in names]).empty_table()
        columns = pa.concat_tables([t.select(names) for t in self.columns] or [empty]).combine_chunks()
        self.columns.clear()
        keys = KeyBatch(
            tuple(self.names),
            np.concatenate([none32, *codes]),
            columns,
            tuple(schema.field(n).type for n in names),
            np.concatenate([none32, *(p.keys.hashes for p in self.parts)]),
        )
        starts = np.cumsum([0, *(len(p.keys) for p in self.parts)]).astype(np.int64)
        return KeyedBatch(keys, np.concatenate([none, *retract]), starts, [p.rows for p in self.parts])
