"""Manifest entries as Arrow columns: what planning looks at, without an object per entry.

The records themselves stay as the manifests hold them, block by compressed block, and become `ManifestEntry` objects when
somebody asks for them. So a million files take some 500 MB less than as objects, and an entry that is not used is never made.

==============================  ===========================  ==================================================================
column                          type                         value
==============================  ===========================  ==================================================================
kind                            int8                         `lakeidx.format.manifest.FileKind`
partition                       dictionary<int32, binary>    partition bytes
bucket, total_buckets, level    int32
schema_id, file_size            int64
row_count, delete_row_count     int64                        the latter null when the file does not say
min_sequence, max_sequence      int64
high, low                       uint64                       128-bit hash of what an ADD and its DELETE agree in
                                                             (`lakeidx.format.manifest.ManifestEntry.identifier`)
block, start, size              int32                        where the record is
==============================  ===========================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import CorruptFileError
from lakeidx.format.manifest import FileKind, ManifestEntry, entries_of_records
from lakeidx.table.entry_kernels import live_entries

#: So many entries or fewer keep the objects that were made of them.
_KEPT_OBJECTS = 4096

COLUMNS = pa.schema(
    [
        ("kind", pa.int8()),
        ("bucket", pa.int32()),
        ("total_buckets", pa.int32()),
        ("level", pa.int32()),
        ("schema_id", pa.int64()),
        ("file_size", pa.int64()),
        ("row_count", pa.int64()),
        ("delete_row_count", pa.int64()),
        ("min_sequence", pa.int64()),
        ("max_sequence", pa.int64()),
        ("partition", pa.dictionary(pa.int32(), pa.binary())),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
        ("block", pa.int32()),
        ("start", pa.int32()),
        ("size", pa.int32()),
    ]
)

#: Says of the partitions of a manifest (distinct partition bytes) which entries to keep.
KeepPartitions = Callable[[pa.BinaryArray], pa.BooleanArray]


@dataclass(frozen=True, slots=True)
class Block:
    """Records as they are held.

    writer   JSON text of the schema they were written with
    data     theirs alone, or a part of their file's bytes
    unpack   decompresses them; None when they are not compressed
    path     their manifest, for messages
    """

    writer: bytes
    data: bytes | memoryview
    unpack: Callable[[bytes | memoryview], bytes] | None
    path: str | None

    def __reduce__(self) -> tuple[object, ...]:
        return Block, (self.writer, bytes(self.data), self.unpack, self.path)

    def records(self) -> bytes:
        """Return the records, uncompressed."""
        return bytes(self.data) if self.unpack is None else self.unpack(self.data)

    def alone(self) -> Block:
        """Return the block without the rest of its file."""
        return self if isinstance(self.data, bytes) else replace(self, data=bytes(self.data))


class Entries(Sequence[ManifestEntry]):
    """Manifest entries in their order; looks like a tuple of `ManifestEntry`.

    table      the columns of the module's table
    left_out   files and bytes of other partitions that were passed over when the manifests were read: ADD less DELETE
    """

    __slots__ = ("_blocks", "_objects", "left_out", "table")

    def __init__(self, table: pa.Table, blocks: Sequence[Block], left_out: tuple[int, int] = (0, 0)) -> None:
        self.table = table
        self.left_out = left_out
        self._blocks = blocks
        self._objects: list[ManifestEntry] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        objects = 2048 * len(self) if len(self) <= _KEPT_OBJECTS else 0
        # `nbytes` of a table takes forty times as long: it looks at offsets.
        return sum(len(b.data) for b in self._blocks) + int(self.table.get_total_buffer_size()) + objects

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers as NumPy has it (nulls of delete_row_count: -1)."""
        column = self.table.column(name)
        return np.asarray(column.fill_null(-1) if column.null_count else column)

    def places(self) -> tuple[npt.NDArray[np.int64], list[tuple[bytes, int]]]:
        """Count the (partition, bucket) places: int64[n], the number of each entry's place, and the places by number."""
        table = self.table.select(["partition", "bucket"]).unify_dictionaries().combine_chunks()
        if not len(table):
            return np.empty(0, np.int64), []
        column = table.column("partition").chunk(0)
        codes, buckets = (
            np.asarray(column.indices).astype(np.int64),
            np.asarray(table.column("bucket")).astype(np.int64),
        )
        keys, numbers = np.unique((codes << 32) + buckets + (1 << 31), return_inverse=True)
        partitions = column.dictionary.to_pylist()
        return numbers, [(partitions[k >> 32], (k & 0xFFFFFFFF) - (1 << 31)) for k in keys.tolist()]

    def select(self, rows: npt.NDArray[Any]) -> Entries:
        """Take entries by a mask, bool[n], or by their positions, int[m]."""
        positions = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(positions) == len(self) and rows.dtype == np.bool_:
            return self
        table = self.table.filter(pa.array(rows)) if rows.dtype == np.bool_ else self.table.take(pa.array(rows))
        found = Entries(table, self._blocks)
        if self._objects is not None:
            found._objects = [self._objects[i] for i in positions.tolist()]
        return found

    def of_partitions(self, keep: KeepPartitions) -> Entries:
        """Take the entries of some partitions."""
        chunks = self.table.column("partition").chunks
        ends = np.cumsum([len(chunk.dictionary) for chunk in chunks])
        kept = np.asarray(keep(pa.concat_arrays([c.dictionary for c in chunks]))) if chunks else np.empty(0, np.bool_)
        if kept.all():
            return self if self.left_out == (0, 0) else self.leaving_out((0, 0))
        rows = [
            known[np.asarray(chunk.indices)] for chunk, known in zip(chunks, np.split(kept, ends[:-1]), strict=True)
        ]
        found = self.select(np.concatenate(rows))
        (files, size), (kept_files, kept_size) = self._totals(), found._totals()
        return found.leaving_out((files - kept_files, size - kept_size))

    def _totals(self) -> tuple[int, int]:
        sign = np.where(self.column("kind") == FileKind.ADD, 1, -1)
        return int(sign.sum()), int((sign * self.column("file_size")).sum())

    def of_places(self, places: Collection[tuple[bytes, int]]) -> Entries:
        """Take the entries of some (partition, bucket) places."""
        wanted = set(places)
        near = self.of_partitions(of_partitions({p for p, _ in wanted}))
        numbers, there = near.places()
        return near.select(np.array([p in wanted for p in there], np.bool_)[numbers])

    def partitions(self) -> list[bytes]:
        """Return the distinct partitions, or some more that its columns have known."""
        known = [chunk.dictionary for chunk in self.table.column("partition").chunks]
        return pa.concat_arrays(known).unique().to_pylist() if known else []

    def partition_counts(self) -> dict[bytes, int]:
        """Group the entries by partition bytes."""
        found = self.table.column("partition").value_counts()
        return {} if not len(found) else dict(zip(*(found.field(i).to_pylist() for i in (0, 1)), strict=True))

    def total_buckets(self) -> dict[bytes, int]:
        """Return the total bucket number by partition bytes, as the last entry of each has it."""
        table = self.table.select(["partition", "total_buckets"]).unify_dictionaries().combine_chunks()
        if not len(table):
            return {}
        column = table.column("partition").chunk(0)
        codes, last = np.unique(np.asarray(column.indices)[::-1], return_index=True)
        totals = self.column("total_buckets")[::-1][last]
        return dict(zip(column.dictionary.take(pa.array(codes)).to_pylist(), totals.tolist(), strict=True))

    def compact(self) -> Entries:
        """Let go of blocks that hold none of the entries, and of the files that the others are parts of."""
        used, block = np.unique(self.column("block"), return_inverse=True)
        if len(used) == len(self._blocks):
            return self
        at = self.table.schema.get_field_index("block")
        table = self.table.set_column(at, "block", pa.array(block.astype(np.int32)))
        found = Entries(table, [self._blocks[i].alone() for i in used.tolist()])
        found._objects = self._objects
        return found

    def alone(self) -> Entries:
        """Let go of the files that the blocks are parts of."""
        return Entries(self.table, [b.alone() for b in self._blocks], self.left_out)

    def leaving_out(self, files_and_bytes: tuple[int, int]) -> Entries:
        """Return the same entries with another `left_out`."""
        found = Entries(self.table, self._blocks, files_and_bytes)
        found._objects = self._objects
        return found

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> ManifestEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Entries: ...
    def __getitem__(self, index: int | slice) -> ManifestEntry | Entries:
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        if self._objects is None and len(self) > _KEPT_OBJECTS:
            (one,) = self.select(np.array([range(len(self))[index]]))
            return one
        return self._all()[index]

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self._all()) if len(self) <= _KEPT_OBJECTS else self._made()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def writers(self) -> set[bytes]:
        """Return the schemas the records were written with (JSON text)."""
        return {b.writer for b in self.compact()._blocks}

    def keeping(self, objects: list[ManifestEntry]) -> Entries:
        """Remember the objects that the columns were made of, when they are few."""
        if len(objects) <= _KEPT_OBJECTS:
            self._objects = objects
        return self

    def _all(self) -> list[ManifestEntry]:
        if self._objects is None:
            self._objects = list(self._made())
        return self._objects

    def _made(self) -> Iterator[ManifestEntry]:
        for block, records in self.records():
            yield from entries_of_records(block.writer, records, block.path)

    def records(self) -> Iterator[tuple[Block, list[bytes]]]:
        """Give records in order, by runs of one block."""
        blocks, starts, sizes = (self.column(c) for c in ("block", "start", "size"))
        if not len(blocks):
            return
        cuts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
        for first, last in pairwise(cuts):
            assert blocks[first] >= 0, "the records of these entries were not held"
            block = self._blocks[blocks[first]]
            raw = block.records()
            ends = (starts[first:last] + sizes[first:last]).tolist()
            yield block, [raw[a:b] for a, b in zip(starts[first:last].tolist(), ends, strict=True)]


@cache
def no_entries() -> Entries:
    """Return the empty list of entries (made when asked for: the first Arrow array of a process imports pandas)."""
    return Entries(COLUMNS.empty_table(), ())


def joined(parts: Sequence[Entries]) -> Entries:
    """Concatenate, in the order given."""
    left_out = (sum(p.left_out[0] for p in parts), sum(p.left_out[1] for p in parts))
    parts = [p for p in parts if len(p)]
    if not parts:
        return no_entries() if left_out == (0, 0) else Entries(COLUMNS.empty_table(), (), left_out)
    if len(parts) == 1 and parts[0].left_out == left_out:
        return parts[0]
    tables: list[pa.Table] = []
    blocks: list[Block] = []
    at = COLUMNS.get_field_index("block")
    for part in parts:
        moved = pc.add(part.table.column("block"), pa.scalar(len(blocks), pa.int32()))
        tables.append(part.table.set_column(at, "block", moved))
        blocks += part._blocks
    return Entries(pa.concat_tables(tables), blocks, left_out)


def live_files(entries: Entries, *, where: str) -> Entries:
    """Merge ADD and DELETE entries, in list order, into the live ADD entries; the fast twin of `fold_entries`.

    where    what the error message names (the snapshot's manifest list)
    errors   CorruptFileError for a file added twice
    """
    rows, twice = live_entries(entries.column("kind"), entries.column("high"), entries.column("low"))
    if twice >= 0:
        raise CorruptFileError(f"data file {entries[twice].file.file_name} is added twice", path=where)
    return entries if len(rows) == len(entries) else entries.select(rows).leaving_out(entries.left_out)


def of_partitions(wanted: Iterable[bytes]) -> KeepPartitions:
    """Keep the entries of some partitions."""
    values = pa.array(sorted(wanted), pa.binary())
    return lambda partitions: pc.is_in(partitions, value_set=values)


def where_partition(matches: Callable[[bytes], bool]) -> KeepPartitions:
    """Keep the entries of the partitions that pass a test; each partition is tested once."""
    tested = cache(matches)
    return lambda partitions: pa.array([tested(p) for p in partitions.to_pylist()], pa.bool_())
