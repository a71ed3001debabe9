"""Places of the pages of a column chunk, by its offset index, and whether the pages are there.

OffsetIndex: 1 list of PageLocation (1 i64 offset, 2 i32 size with header, 3 i64 first row).
PageHeader: 1 type, 3 size in the file, 5 DataPageHeader (1 values), 8 DataPageHeaderV2 (1 values); the page's bytes follow it.

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.jit import frozen, helper, kernel
from lakeidx.data.parquet.thrift import I32, I64, LIST, STRUCT, read_field, read_list, read_varint, skip, zigzag

# Fields of a page header as they are numbered there, and the number of values.
_KIND, _BYTES, _VALUES, _HEADER = 1, 3, 4, 5
# Types of pages.
_DATA, _DATA_2 = 0, 3
# A PageLocation: three field headers, three numbers, the end.
_LEAST_PLACE = 7


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a column chunk.

    start, size   of the chunk, dictionary page included
    index_at, index_size   of its offset index
    """

    start: int
    size: int
    index_at: int
    index_size: int


@dataclass(frozen=True, slots=True)
class PageTable:
    """The data pages of a chunk: offsets int64[pages + 1] (the last one ends the chunk), first rows int64[pages + 1]."""

    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


def decode_page_table(data: bytes, chunk: ChunkPlace, rows: int) -> PageTable | None:
    """Decode the pages of a chunk by its offset index; None when it does not describe the whole chunk, page after page.

    data    the offset index
    rows    rows of the row group
    """
    found = np.empty((max(1, len(data) // _LEAST_PLACE), 3), np.int64)
    count = int(_walk_offset_index(frozen(np.frombuffer(data, np.uint8)), found))
    offsets, firsts = np.empty(max(0, count) + 1, np.int64), np.empty(max(0, count) + 1, np.int64)
    if not _one_after_another(found, count, chunk.start, chunk.start + chunk.size, rows, offsets, firsts):
        return None
    return PageTable(offsets, firsts)


@kernel
def _one_after_another(found: Any, count: Any, start: Any, end: Any, rows: Any, offsets: Any, firsts: Any) -> Any:
    """Copy offsets and first rows, what follows the last page included; False when the pages are not all of the chunk in its order.

    found        int64[n, 3] as of `_walk_offset_index`, of which `count` count
    start, end   of the chunk in the file; its first page follows the dictionary
    """
    if count < 1 or found[0, 0] < start or found[0, 2] != 0:
        return False
    for i in range(count):
        offset, size, first = found[i, 0], found[i, 1], found[i, 2]
        last = i + 1 == count
        if size <= 0 or offset + size != (end if last else found[i + 1, 0]):
            return False
        if (rows if last else found[i + 1, 2]) <= first:
            return False
        offsets[i], firsts[i] = offset, first
    offsets[count], firsts[count] = end, rows
    return True


@kernel
def _walk_offset_index(data: Any, out: Any) -> Any:
    """Fill out int64[n, 3] with offset, size and first row of each page; their number, or -1 for anything else."""
    field_id, kind, at = read_field(data, np.int64(0), np.int64(0))
    if field_id != 1 or kind != LIST:
        return -1
    count, inner, at = read_list(data, at)
    if at < 0 or inner != STRUCT or count > len(out):
        return -1
    for page in range(count):
        field_id = np.int64(0)
        for i in range(3):
            # Fields 1 (i64), 2 (i32) and 3 (i64), each one after the other.
            field_id, kind, at = read_field(data, at, field_id)
            if at < 0 or field_id != i + 1 or kind != (I32 if i == 1 else I64):
                return -1
            value, at = read_varint(data, at)
            # Negative numbers are odd in zigzag form; none of these is negative.
            if at < 0 or value & 1:
                return -1
            out[page, i] = zigzag(value)
        field_id, kind, at = read_field(data, at, field_id)
        if at < 0 or kind != 0:
            return -1
    return count


def pages_hold_their_rows(stream: pa.NativeFile, chunk: ChunkPlace, table: PageTable) -> bool:
    """Read the headers of a chunk's pages; return False when one is not where its offset index says, or has other rows."""
    begin, end = int(table.offsets[0]), chunk.start + chunk.size
    data = frozen(np.frombuffer(stream.read_at(end - begin, begin), np.uint8))
    return len(data) == end - begin and bool(_pages_fit(data, table.offsets - begin, np.diff(table.rows)))


@kernel
def _pages_fit(data: Any, starts: Any, rows: Any) -> Any:
    """Return True when consecutive data pages in uint8[n] begin at starts int64[p + 1] and have rows int64[p] values."""
    header = np.empty(_HEADER, np.int64)
    for page in range(len(rows)):
        size = _page_header(data[: starts[page + 1]], starts[page], header)
        if size < 0 or (header[_KIND] != _DATA and header[_KIND] != _DATA_2) or header[_VALUES] != rows[page]:
            return False
        if starts[page] + size + header[_BYTES] != starts[page + 1]:
            return False
    return True


@helper
def _page_header(data: Any, at: Any, out: Any) -> Any:
    """Fill out int64[_HEADER] with what counts of the header at a position: its bytes, or -1 where it cannot be read."""
    begin, last = at, np.int64(0)
    out[:] = -1
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0:
            return -1
        if kind == 0:
            return at - begin
        if kind == I32 and last in (_KIND, _BYTES):
            value, at = read_varint(data, at)
            out[last] = zigzag(value)
        elif kind == STRUCT and (last == 5 or last == 8):
            # The number of values comes first in both.
            field_id, inner, inside = read_field(data, at, np.int64(0))
            if field_id == 1 and inner == I32:
                value, inside = read_varint(data, inside)
                out[_VALUES] = zigzag(value)
            at = skip(data, at, kind)
        else:
            at = skip(data, at, kind)
        if at < 0:
            return -1
