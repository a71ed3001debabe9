"""Reading key columns, and nothing else, from Parquet files: footers once, row groups pruned by what is looked for.

source   Parquet format specification, column chunk statistics; Hudi's HoodieFileUtils#filterRowKeys reads the whole
         column
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.errors import CorruptFileError
from lakeidx.storage.base import ObjectStore
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.key_codes import KeyCodes
from lakeidx.tagging.key_range import bytes_slots, find_candidates, int_slots

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """An open file and its footer."""

    path: str
    file: Any
    metadata: pq.FileMetaData

    def column_index(self, name: str) -> int | None:
        """Position of a flat column among the leaf columns, None when the file has none of that name."""
        for i in range(self.metadata.num_columns):
            if self.metadata.schema.column(i).path == name:
                return i
        return None


def open_key_file(store: ObjectStore, path: str, size: int | None = None) -> KeyFile:
    """Open a Parquet file and read its footer.

    errors   CorruptFileError when it is no Parquet file; the store's own errors
    """
    source = store.open_input(path, size=size)
    try:
        opened = pq.ParquetFile(source)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"not a Parquet file: {error}", path=path) from error
    return KeyFile(path, opened, opened.metadata)


def read_columns(
    key_file: KeyFile, columns: Sequence[str], groups: Sequence[int], figures: TagFigures
) -> tuple[pa.Table, Ints]:
    """Read columns of some row groups.

    returns  the rows, and int64[rows] their positions in the file
    errors   CorruptFileError when the pages cannot be read
    """
    metadata = key_file.metadata
    try:
        table = key_file.file.read_row_groups(list(groups), columns=list(columns), use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"the key columns cannot be read: {error}", path=key_file.path) from error
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    positions = [np.arange(firsts[g], firsts[g + 1]) for g in groups]
    wanted = set(columns)
    figures.files_read += 1
    figures.row_groups += metadata.num_row_groups
    figures.row_groups_read += len(groups)
    figures.rows_read += table.num_rows
    for g in groups:
        group = metadata.row_group(g)
        for c in range(group.num_columns):
            chunk = group.column(c)
            if chunk.path_in_schema in wanted:
                figures.bytes_read += chunk.total_compressed_size
    return table, (np.concatenate(positions) if positions else np.zeros(0, np.int64))


def groups_that_may_hold(key_file: KeyFile, column: str, codes: KeyCodes) -> list[int]:
    """Row groups whose statistics of a key column do not rule out all of some keys.

    codes    int codes, or the column's own bytes; made for that column alone
    """
    count = key_file.metadata.num_row_groups
    at = key_file.column_index(column)
    if count <= 1 or at is None or not len(codes):
        return list(range(count)) if len(codes) else []
    bounds = [_bounds(key_file.metadata.row_group(g).column(at).statistics) for g in range(count)]
    low, high = [b[0] for b in bounds], [b[1] for b in bounds]
    if codes.ints is not None:
        always = np.array([not isinstance(v, int) for v in low])
        ends = [np.array([v if isinstance(v, int) else 0 for v in e], np.int64) for e in (low, high)]
        slots = int_slots(codes.ints, ends[0], ends[1], always)
    else:
        assert codes.rows is not None
        ends_b = [[v if isinstance(v, bytes) else None for v in e] for e in (low, high)]
        slots = bytes_slots(codes.rows, ends_b[0], ends_b[1])
    counts = find_candidates(slots, tree=False, rng=np.random.default_rng(0)).counts
    return [g for g in range(count) if counts[g]]


def _bounds(statistics: pq.Statistics | None) -> tuple[Any, Any]:
    """Raw min and max of a column chunk: int or bytes, (None, None) when there are none of that kind."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    low, high = statistics.min_raw, statistics.max_raw
    if isinstance(low, str):
        low, high = low.encode("utf-8"), high.encode("utf-8")
    if isinstance(low, bool) or not isinstance(low, (int, bytes)):
        return None, None
    return low, high
