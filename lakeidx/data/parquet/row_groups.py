"""Row groups of one Parquet data file, read as stored: names, types and positions of the file.

Arrow's exceptions for damaged files as errors of lakeidx, with the place of the damage in a Parquet file, which Arrow omits.

A walk over the page headers of the columns that were read, made only after decoding has failed.

PageHeader, Thrift compact: 1 type i32, 2 i32 size before compression, 3 i32 size in the file, 4 i32 CRC-32 of the page as it lies
there (optional), 5 to 8 structs of each type. The page follows.

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.parquet.chunks import damage_of, leaf_paths, merge_chunk_stats, open_footer, open_rows
from lakeidx.data.parquet.damage import ColumnChunk, _find_undecodable, find_damage
from lakeidx.data.positions import ReadCounters, RowFilter
from lakeidx.errors import CorruptFileError
from lakeidx.predicate import ColumnStats, Predicate, all_null_stats, columns, may_match_stats
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.range_file import RemoteInput
from lakeidx.types import NESTED_ROOTS, STRING_ROOTS, Field

if TYPE_CHECKING:
    from lakeidx.data.parquet.pages import ChunkPages


class RowTest(NamedTuple):
    """A filter on rows that is evaluated before the columns it does not need are read.

    names      columns of the file it needs
    selected   (position of the first row, rows of these columns) -> bool[rows] without nulls
    """

    names: frozenset[str]
    selected: Callable[[int, pa.Table], npt.NDArray[np.bool_]]


class ParquetSource:
    """An open Parquet data file.

    size     bytes, when known: saves a request on object stores
    errors   NotFoundError; CorruptFileError for a file whose footer cannot be read

    String columns of which every page refers to a dictionary come as dictionary arrays: rows that are left out need not be
    spelled out then, and spelling out the others afterwards takes half the time.
    """

    def __init__(
        self, store: ObjectStore, path: str, *, size: int | None = None, dictionary_columns: Sequence[str] = ()
    ) -> None:
        self.path = path
        self._stream = store.open_input(path, size=size)
        with damage_of(path):
            footer = open_footer(self._stream, path)
            self._footer, metadata, leaves, self._chunks = footer.data, footer.metadata, footer.leaves, footer.chunks
            encoded = [
                leaf.name
                for leaf, only in zip(leaves, self._chunks.dictionary_only(), strict=True)
                if only and leaf.name == leaf.path and leaf.logical_type.type == "STRING"
            ]
            plain = {leaf.name for leaf, delta in zip(leaves, self._chunks.delta_texts(), strict=True) if delta}
            self._dictionaries = [*(n for n in dictionary_columns if n not in plain), *encoded] or None
            self._remote = self._stream.ranges if isinstance(self._stream, RemoteInput) else None
            self._file = open_rows(self._stream, metadata, self._dictionaries)
            self.schema: pa.Schema = self._file.schema_arrow
            # A column's name may hold dots, so the path does not tell which column a leaf is in: the order does.
            owners = [f.name for f in self.schema for _ in leaf_paths(f.name, f.type)]
            self._leaves = [
                _Leaf(c.path, o, c.physical_type, c.max_repetition_level > 0)
                for c, o in zip(leaves, owners, strict=True)
            ]
            self._group_rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
            self.rows = int(metadata.num_rows)
        if sum(self._group_rows) != self.rows or any(n < 0 for n in self._group_rows):
            raise CorruptFileError(f"row groups of {self._group_rows} rows in a file of {self.rows}", path=path)
        self._int96 = frozenset(leaf.column for leaf in self._leaves if leaf.physical_type == "INT96")

    def batches(
        self,
        names: Sequence[str],
        *,
        row_filter: RowFilter,
        predicate: Predicate | None,
        fields: Sequence[Field],
        batch_rows: int,
        counters: ReadCounters,
        row_test: RowTest | None = None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Return (position of the first row, rows) of the row groups that may hold wanted rows, in file order.

        names      columns of the file
        predicate  over the file's own columns, bound; row groups whose statistics exclude it are left out
        fields     the columns of the schema the file was written with
        row_test   with it, only the rows that it selects come, and no position is right but that of the first row
        """
        tested = frozenset() if predicate is None else frozenset(columns(predicate))
        counters.row_groups += len(self._group_rows)
        wanted = list(names) if row_test is None else list(dict.fromkeys([*names, *row_test.names]))
        starts = [0, *itertools.accumulate(self._group_rows)]
        chosen = [
            g
            for g, rows in enumerate(self._group_rows)
            if row_filter.keeps_any(starts[g], rows) and self._may_match(g, predicate, tested, fields)
        ]
        counters.bytes_spared += sum(self._group_bytes(g, wanted) for g in {*range(self.groups)}.difference(chosen))
        with self._expected(chosen, names if row_test is None else self._tested_first(row_test)):
            for g in chosen:
                counters.row_groups_read += 1
                counters.rows_read += self._group_rows[g]
                if row_test is None:
                    counters.bytes_read += self._group_bytes(g, names)
                    yield from self._group(g, starts[g], names, batch_rows)
                else:
                    yield from self._tested(g, starts[g], names, row_test, batch_rows, counters)

    @property
    def groups(self) -> int:
        """Number of row groups."""
        return len(self._group_rows)

    def group(self, g: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.Table]:
        """Read the rows of one row group, checksums of pages verified; errors as reading the file."""
        return (table for _, table in self._group(g, 0, names, batch_rows))

    def _tested(
        self, g: int, first: int, names: Sequence[str], test: RowTest, batch_rows: int, counters: ReadCounters
    ) -> Iterator[tuple[int, pa.Table]]:
        """Read the rows of a row group that a test selects: its columns first, the others only when there are such rows."""
        tested = self._tested_first(test)
        kept, masks = [], []
        # Without columns there is nothing to read, but as many rows to ask about.
        batches = self._group(g, first, tested, batch_rows) if tested else [(first, _bare(self._group_rows[g]))]
        for at, table in batches:
            mask = test.selected(at, table)
            masks.append(mask)
            if mask.any():
                kept.append(table.filter(pa.array(mask)))
        rest = [n for n in names if n not in test.names]
        counters.bytes_read += self._group_bytes(g, tested)
        if not kept:
            counters.bytes_spared += self._group_bytes(g, rest)
            return
        mask, taken = np.concatenate(masks), 0
        found = pa.concat_tables(kept) if tested else _bare(int(mask.sum()))
        if not rest:
            for start in range(0, found.num_rows, batch_rows):
                yield first, found.slice(start, batch_rows).select(list(names))
            return
        counters.bytes_read += self._group_bytes(g, rest)
        last = int(np.flatnonzero(mask)[-1])
        for at, table in self._group(g, first, rest, batch_rows):
            here = mask[at - first : at - first + table.num_rows]
            if here.any():
                rows = table.filter(pa.array(here))
                known = found.slice(taken, rows.num_rows)
                taken += rows.num_rows
                columns = [(rows if n in rows.column_names else known).column(n) for n in names]
                yield at, pa.Table.from_arrays(columns, names=list(names))
            if at - first + table.num_rows > last:
                return

    def _tested_first(self, test: RowTest) -> list[str]:
        return [n for n in self.schema.names if n in test.names]

    @contextlib.contextmanager
    def _expected(self, groups: Sequence[int], names: Sequence[str]) -> Iterator[None]:
        """Let row groups that are read in turn be fetched before they are needed, where reads are requests."""
        if self._remote is None:
            yield
            return
        self._remote.expect(self._ranges(g, names) for g in groups)
        try:
            yield
        finally:
            self._remote.expect(())

    def _ranges(self, g: int, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return where the column chunks of a row group are: (first byte, bytes); those outside of the file are left out."""
        wanted, size = set(names), self._stream.size()
        extents = [self._chunks.extent(g, i) for i, leaf in enumerate(self._leaves) if leaf.column in wanted]
        return [e for e in extents if e is not None and e[0] >= 0 and e[0] + e[1] <= size]

    def pages(self, g: int) -> dict[int, ChunkPages]:
        """Read the page indexes of a row group, by the numbers of the leaf columns that have one.

        errors   CorruptFileError
        """
        with damage_of(self.path):
            return {i: pages for i, leaf in enumerate(self._leaves) if (pages := self._pages(g, i, leaf)) is not None}

    def _pages(self, g: int, i: int, leaf: _Leaf) -> ChunkPages | None:
        place = self._chunks.place(g, i)
        if place is None or not self._group_rows[g]:
            return None
        # Nobody else reads page indexes.
        from lakeidx.data.parquet.pages import ChunkPages

        return ChunkPages(
            self._stream,
            place,
            self._group_rows[g],
            column=leaf.path,
            physical_type=leaf.physical_type,
            flat=leaf.path == leaf.column and not leaf.repeated,
            nulls=self._chunks.stats(g, i, leaf.physical_type).null_count,
        )

    def _group(self, g: int, first: int, names: Sequence[str], batch_rows: int) -> Iterator[tuple[int, pa.Table]]:
        with damage_of(self.path):
            if self._remote is not None:
                self._remote.hold(self._ranges(g, names))
            self._check_int96(g, names)
            batches = self._file.iter_batches(batch_rows, row_groups=[g], columns=list(names), use_threads=False)
        left = self._group_rows[g]
        while True:
            with self._damage(g, names):
                batch = next(batches, None)
                if batch is None:
                    break
                # A prefix of a dotted name may have brought columns that no one requested.
                table = pa.Table.from_batches([batch]).select(list(names))
            yield first, table
            first += table.num_rows
            left -= table.num_rows
        if left:
            raise CorruptFileError(f"row group {g} has {left} rows fewer than the footer's count", path=self.path)

    @contextlib.contextmanager
    def _damage(self, g: int, names: Sequence[str]) -> Iterator[None]:
        """Do as `damage_of`; name the column and the byte where its page, or at least its chunk, begins."""
        try:
            with damage_of(self.path):
                yield
        except CorruptFileError as error:
            if error.offset is not None:
                raise
            extents = {i: self._chunks.extent(g, i) for i, leaf in enumerate(self._leaves) if leaf.column in names}
            chunks = [ColumnChunk(self._leaves[i].path, i, *e) for i, e in extents.items() if e is not None]
            with damage_of(self.path):
                found = find_damage(self._stream, chunks) or _find_undecodable(self._file, g, chunks)
            if found is None:
                raise
            raise CorruptFileError(
                f"column {found.column!r}, row group {g}: {found.what}", path=self.path, offset=found.offset
            ) from error

    def _may_match(self, g: int, predicate: Predicate | None, tested: Collection[str], fields: Sequence[Field]) -> bool:
        if predicate is None:
            return True
        with damage_of(self.path):
            return may_match_stats(predicate, self.stats(g, tested, fields), nan_blind=True)

    def stats(self, g: int, wanted: Collection[str], fields: Sequence[Field]) -> dict[str, ColumnStats]:
        """Return the footer's statistics of some columns of a row group; a column without statistics is left out.

        fields   the columns of the schema the file was written with
        """
        rows = self._group_rows[g]
        leaves = {leaf.path: (i, leaf.physical_type) for i, leaf in enumerate(self._leaves) if leaf.path == leaf.column}
        stats: dict[str, ColumnStats] = {}
        for f in fields:
            if f.name not in wanted:
                continue
            if f.name not in self.schema.names:
                stats[f.name] = all_null_stats(rows)
            elif f.name in leaves and f.name not in self._int96 and f.type.root not in NESTED_ROOTS:
                found = merge_chunk_stats([self._chunks.stats(g, *leaves[f.name])], f.type)
                low, high = found.minimum, found.maximum
                if f.type.root in STRING_ROOTS and low is not None:
                    low, high = low.decode("utf-8", "replace"), high.decode("utf-8", "replace")
                stats[f.name] = ColumnStats(low, high, found.null_count, rows)
        return stats

    def _group_bytes(self, g: int, names: Sequence[str]) -> int:
        wanted = set(names)
        return sum(self._chunks.compressed_bytes(g, i) for i, leaf in enumerate(self._leaves) if leaf.column in wanted)

    def _check_int96(self, g: int, names: Sequence[str]) -> None:
        wanted = [n for n in names if n in self._int96]
        if wanted:
            from lakeidx.data.parquet.int96 import refuse_int96

            refuse_int96(self._stream, g, wanted, self.path)


def _bare(rows: int) -> pa.Table:
    """Return a table of so many rows without columns."""
    return pa.table({"": pa.nulls(rows)}).select([])


class _Leaf(NamedTuple):
    """A leaf column of the file: its dotted path, the top-level column it is in, and whether it lies in a list or map."""

    path: str
    column: str
    physical_type: str
    repeated: bool
