"""Reading key columns, and nothing else, from Parquet files: footers once, row groups pruned by what is looked for.

source   Parquet format specification, column chunk statistics; Hudi's HoodieFileUtils#filterRowKeys reads the whole
         column
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.data.parquet.chunks import ChunkStats, FooterChunks, damage_of, hold_columns, open_footer, open_rows
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.ranges import bytes_slots, find_candidates, int_slots
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.storage.base import ObjectStore

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class KeyFile:
    """An open file and its footer: of `metadata` the schema, key-value pairs and row groups' sizes, of `chunks` the rest."""

    path: str
    metadata: pq.FileMetaData
    leaves: Sequence[pq.ColumnSchema]
    chunks: FooterChunks
    _source: pa.NativeFile
    _rows: pq.ParquetFile | None

    @property
    def rows(self) -> pq.ParquetFile:
        """The file for its rows: opened when they are asked for, as many files are ruled out by their footer.

        errors   CorruptFileError
        """
        if self._rows is None:
            with damage_of(self.path):
                self._rows = open_rows(self._source, self.metadata)
        return self._rows

    def hold(self, groups: Sequence[int], columns: Sequence[str]) -> None:
        """Have columns of row groups in memory for the reads that follow, as `hold_columns` does."""
        hold_columns(self._source, self.leaves, self.chunks, groups, columns)

    def column_index(self, name: str) -> int | None:
        """Return a flat column's position among the leaf columns, None when the file has none of that name."""
        return next((i for i, leaf in enumerate(self.leaves) if leaf.path == name), None)


def open_key_file(store: ObjectStore, path: str, size: int | None = None) -> KeyFile:
    """Open a Parquet file and read its footer.

    errors   CorruptFileError when it is no Parquet file; the store's own errors
    """
    source = store.open_input(path, size=size)
    with damage_of(path):
        footer = open_footer(source, path)
    return KeyFile(path, footer.metadata, footer.leaves, footer.chunks, source, footer.whole)


def read_key_columns(
    key_file: KeyFile, columns: Sequence[str], groups: Sequence[int], metrics: IndexMetrics
) -> pa.Table:
    """Read columns of some row groups.

    errors   CorruptFileError when the pages cannot be read
    """
    metadata, rows = key_file.metadata, key_file.rows
    key_file.hold(groups, columns)
    try:
        table = rows.read_row_groups(list(groups), columns=list(columns), use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"the key columns cannot be read: {error}", path=key_file.path) from error
    present = table.column_names
    for name in columns:
        if name not in present:
            raise CorruptFileError(f"the file has no column {name!r}", path=key_file.path)
    wanted = set(columns)
    read = [c for c, leaf in enumerate(key_file.leaves) if leaf.path in wanted]
    metrics.files_read += 1
    metrics.row_groups += metadata.num_row_groups
    metrics.row_groups_read += len(groups)
    metrics.rows_read += table.num_rows
    metrics.bytes_read += sum(key_file.chunks.compressed_bytes(g, c) for g in groups for c in read)
    return table


def row_positions(key_file: KeyFile, groups: Sequence[int]) -> Ints:
    """Return int64[rows], the positions in the file of the rows that `read_key_columns` reads of some row groups."""
    metadata = key_file.metadata
    firsts = [0, *accumulate(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))]
    positions = [np.arange(firsts[g], firsts[g + 1]) for g in groups]
    return np.concatenate(positions) if positions else np.zeros(0, np.int64)


def groups_that_may_hold(key_file: KeyFile, column: str, codes: KeyCodes) -> list[int]:
    """Return the row groups whose statistics of a key column do not rule out all of some keys.

    codes    int codes, or the column's own bytes; made for that column alone
    """
    count = key_file.metadata.num_row_groups
    at = key_file.column_index(column)
    if count <= 1 or at is None or not len(codes):
        return list(range(count)) if len(codes) else []
    bounds = [_bounds(key_file.chunks.stats(g, at, key_file.leaves[at].physical_type)) for g in range(count)]
    low, high = [b[0] for b in bounds], [b[1] for b in bounds]
    if codes.ints is not None:
        always = np.array([not isinstance(v, int) for v in low])
        ends = [np.array([v if isinstance(v, int) else 0 for v in e], np.int64) for e in (low, high)]
        slots = int_slots(codes.ints, ends[0], ends[1], always)
    else:
        assert codes.rows is not None
        ends_b = [[v if isinstance(v, bytes) else None for v in e] for e in (low, high)]
        slots = bytes_slots(codes.rows, ends_b[0], ends_b[1])
    counts = find_candidates(slots).counts
    return [g for g in range(count) if counts[g]]


def _bounds(stats: ChunkStats) -> tuple[Any, Any]:
    """Return the bounds of a column chunk in physical form: int or bytes, (None, None) when there are none of that kind."""
    if isinstance(stats.low, bool) or not isinstance(stats.low, (int, bytes)):
        return None, None
    return stats.low, stats.high
