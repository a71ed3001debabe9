"""Manifest entries as columns: planning needs no object per entry.

The records themselves stay as the manifests hold them, block by compressed block, and become `ManifestEntry` objects when
somebody asks for them. So a million files take some 500 MB less than as objects, and an entry that is not used is never made.

==============================  ==========  ===================================================================================
column                          type        value
==============================  ==========  ===================================================================================
kind                            int8        `lakeidx.format.manifest.FileKind`
partition                       int32       number of the partition bytes among those known
bucket, total_buckets, level    int32
schema_id, file_size            int64
row_count, delete_row_count     int64       the latter -1 when the file does not say
min_sequence, max_sequence      int64
high, low                       uint64      128-bit hash of what an ADD and its DELETE agree in
                                            (`lakeidx.format.manifest.ManifestEntry.identifier`)
block, start, size              int32       where the record is
==============================  ==========  ===================================================================================

They lie in one structured array, row by row: most states are a few entries, of which some are taken and others added, and then
that is one step and not one per column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lakeidx.errors import CorruptFileError
from lakeidx.format.manifest import FileKind, ManifestEntry, entries_of_records

#: So many entries or fewer keep the objects that were made of them.
_KEPT_OBJECTS = 4096

COLUMNS = np.dtype(
    [
        ("kind", np.int8),
        ("partition", np.int32),
        ("bucket", np.int32),
        ("total_buckets", np.int32),
        ("level", np.int32),
        ("schema_id", np.int64),
        ("file_size", np.int64),
        ("row_count", np.int64),
        ("delete_row_count", np.int64),
        ("min_sequence", np.int64),
        ("max_sequence", np.int64),
        ("high", np.uint64),
        ("low", np.uint64),
        ("block", np.int32),
        ("start", np.int32),
        ("size", np.int32),
    ]
)

#: Says of the partitions of a manifest (distinct partition bytes) which entries to keep: bool[n].
KeepPartitions = Callable[[Sequence[bytes]], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Records in memory.

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
        return EntryBlock, (self.writer, bytes(self.data), self.unpack, self.path)

    def records(self) -> bytes:
        """Return the records, uncompressed."""
        return bytes(self.data) if self.unpack is None else self.unpack(self.data)

    def alone(self) -> EntryBlock:
        """Return the block without the rest of its file."""
        return self if isinstance(self.data, bytes) else replace(self, data=bytes(self.data))


class Entries(Sequence[ManifestEntry]):
    """Manifest entries in their order; a sequence of `ManifestEntry`.

    rows       the columns of the module's table, structured[n]; not to be changed
    known      distinct partition bytes, those of all entries and maybe others
    left_out   files and bytes of other partitions that were passed over when the manifests were read: ADD less DELETE
    """

    __slots__ = ("_blocks", "_objects", "_places", "known", "left_out", "rows")

    def __init__(
        self,
        rows: npt.NDArray[np.void],
        known: tuple[bytes, ...],
        blocks: Sequence[EntryBlock],
        left_out: tuple[int, int] = (0, 0),
    ) -> None:
        self.rows = rows
        self.known = known
        self.left_out = left_out
        self._blocks = blocks
        self._objects: list[ManifestEntry] | None = None
        # A batch that is planned and checked on one state asks four times.
        self._places: tuple[npt.NDArray[np.int64], list[tuple[bytes, int]]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        objects = 2048 * len(self) if len(self) <= _KEPT_OBJECTS else 0
        return sum(len(b.data) for b in self._blocks) + sum(map(len, self.known)) + self.rows.nbytes + objects

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a copy of a column."""
        return self.rows[name].copy()

    def places(self) -> tuple[npt.NDArray[np.int64], list[tuple[bytes, int]]]:
        """Count the (partition, bucket) places: int64[n], the number of each entry's place, and the places by number."""
        if self._places is not None:
            return self._places
        places = (self.rows["partition"].astype(np.int64) << 32) + self.rows["bucket"] + (1 << 31)
        if len(places) and (places == places[0]).all():
            keys, numbers = places[:1], np.zeros(len(places), np.int64)
        else:
            keys, numbers = np.unique(places, return_inverse=True)
        self._places = numbers, [(self.known[k >> 32], (k & 0xFFFFFFFF) - (1 << 31)) for k in keys.tolist()]
        return self._places

    def select(self, rows: npt.NDArray[Any]) -> Entries:
        """Take entries by a mask, bool[n], or by their positions, int[m]."""
        positions = rows.nonzero()[0] if rows.dtype == np.bool_ else rows
        if len(positions) == len(self) and rows.dtype == np.bool_:
            return self
        found = Entries(self.rows[positions], self.known, self._blocks)
        if self._objects is not None:
            found._objects = [self._objects[i] for i in positions.tolist()]
        return found

    def of_partitions(self, keep: KeepPartitions) -> Entries:
        """Take the entries of some partitions."""
        kept = keep(self.known)
        if kept.all():
            return self if self.left_out == (0, 0) else self.leaving_out((0, 0))
        found = self.select(kept[self.rows["partition"]])
        (files, size), (kept_files, kept_size) = self._totals(), found._totals()
        return found.leaving_out((files - kept_files, size - kept_size))

    def _totals(self) -> tuple[int, int]:
        sign = np.where(self.rows["kind"] == FileKind.ADD, 1, -1)
        return int(sign.sum()), int((sign * self.rows["file_size"]).sum())

    def of_places(self, places: Collection[tuple[bytes, int]]) -> Entries:
        """Take the entries of some (partition, bucket) places."""
        wanted = set(places)
        near = self.of_partitions(of_partitions({p for p, _ in wanted}))
        numbers, there = near.places()
        return near.select(np.array([p in wanted for p in there], np.bool_)[numbers])

    def partition_counts(self) -> dict[bytes, int]:
        """Group the entries by partition bytes."""
        counts = np.bincount(self.rows["partition"], minlength=len(self.known)).tolist()
        return {partition: count for partition, count in zip(self.known, counts, strict=True) if count}

    def total_buckets(self) -> dict[bytes, int]:
        """Return the total bucket number by partition bytes, as the last entry of each has it."""
        if len(self.known) == 1 and len(self):
            return {self.known[0]: int(self.rows["total_buckets"][-1])}
        codes, last = np.unique(self.rows["partition"][::-1], return_index=True)
        totals = self.rows["total_buckets"][::-1][last]
        return {self.known[code]: total for code, total in zip(codes.tolist(), totals.tolist(), strict=True)}

    def compact(self) -> Entries:
        """Release blocks without any of the entries, and the files that the other blocks are parts of."""
        if len(self._blocks) == 1 and len(self.rows):
            return self
        used, block = np.unique(self.rows["block"], return_inverse=True)
        if len(used) == len(self._blocks):
            return self
        rows = self.rows.copy()
        rows["block"] = block
        found = Entries(rows, self.known, [self._blocks[i].alone() for i in used.tolist()])
        found._objects = self._objects
        return found

    def alone(self) -> Entries:
        """Let go of the files that the blocks are parts of."""
        return Entries(self.rows, self.known, [b.alone() for b in self._blocks], self.left_out)

    def leaving_out(self, files_and_bytes: tuple[int, int]) -> Entries:
        """Return the same entries with another `left_out`."""
        found = Entries(self.rows, self.known, self._blocks, files_and_bytes)
        found._objects = self._objects
        return found

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> ManifestEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Entries: ...
    def __getitem__(self, index: int | slice) -> ManifestEntry | Entries:
        if isinstance(index, slice):
            found = Entries(self.rows[index].copy(), self.known, self._blocks)
            if self._objects is not None:
                found._objects = self._objects[index]
            return found
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

    def records(self) -> Iterator[tuple[EntryBlock, list[bytes]]]:
        """Give records in order, by runs of one block."""
        rows = self.rows
        if not len(rows):
            return
        blocks, starts, ends = rows["block"], rows["start"].tolist(), (rows["start"] + rows["size"]).tolist()
        cuts = [0, *((blocks[1:] != blocks[:-1]).nonzero()[0] + 1).tolist(), len(blocks)]
        for first, last in pairwise(cuts):
            assert blocks[first] >= 0, "the records of these entries were not held"
            block = self._blocks[blocks[first]]
            raw = block.records()
            yield block, [raw[a:b] for a, b in zip(starts[first:last], ends[first:last], strict=True)]


def no_entries(left_out: tuple[int, int] = (0, 0)) -> Entries:
    """Return the empty list of entries."""
    return Entries(np.empty(0, COLUMNS), (), (), left_out)


def joined(parts: Sequence[Entries]) -> Entries:
    """Concatenate, in the order given."""
    if len(parts) == 1:
        return parts[0]
    left_out = (sum(p.left_out[0] for p in parts), sum(p.left_out[1] for p in parts))
    parts = [p for p in parts if len(p)]
    if not parts:
        return no_entries(left_out)
    if len(parts) == 1 and parts[0].left_out == left_out:
        return parts[0]
    rows = np.empty(sum(map(len, parts)), COLUMNS)
    blocks: list[EntryBlock] = []
    numbers: dict[bytes, int] = {}
    end = 0
    for part in parts:
        end += len(part)
        mine = rows[end - len(part) : end]
        # Row by row as they are: NumPy's concatenation compares the types of all columns, in Python.
        mine[:] = part.rows
        codes = np.array([numbers.setdefault(p, len(numbers)) for p in part.known], np.int32)
        mine["partition"] = codes[mine["partition"]]
        # Records that are not held have no block.
        mine["block"] += len(blocks) if part._blocks else 0
        blocks += part._blocks
    return Entries(rows, tuple(numbers), blocks, left_out)


def live_files(entries: Entries, *, where: str) -> Entries:
    """Merge ADD and DELETE entries, in list order, into the live ADD entries.

    where    what the error message names (the snapshot's manifest list)
    errors   CorruptFileError for a file added twice
    """
    from lakeidx.table.entry_kernels import live_entries

    rows, twice = live_entries(entries.column("kind"), entries.column("high"), entries.column("low"))
    if twice >= 0:
        raise CorruptFileError(f"data file {entries[twice].file.file_name} is added twice", path=where)
    return entries if len(rows) == len(entries) else entries.select(rows).leaving_out(entries.left_out)


def of_partitions(wanted: Iterable[bytes]) -> KeepPartitions:
    """Keep the entries of some partitions."""
    known = frozenset(wanted)
    return lambda partitions: np.array([p in known for p in partitions], np.bool_)


def where_partition(matches: Callable[[bytes], bool]) -> KeepPartitions:
    """Keep the entries of the partitions that pass a test; each partition is tested once."""
    tested = cache(matches)
    return lambda partitions: np.array([tested(p) for p in partitions], np.bool_)
