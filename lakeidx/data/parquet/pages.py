"""Some pages of a row group: put into a small Parquet file in memory, for Arrow itself reads whole column chunks only.

Pages are found by the offset index. They begin at the same rows in all columns when a number of rows ends them (20,000 by
default, in Arrow and parquet-mr); then a file of the same pages of every column is a row group of its own.

==================  ==================================================================================================
bytes               content of the file in memory
==================  ==================================================================================================
4                   ``PAR1``
any                 per column its dictionary page, if it has one, and the wanted data pages, as they are
n                   FileMetaData in Thrift compact form: the schema elements of the columns as they are, one row group
4                   n as u32 **little**-endian
4                   ``PAR1``
==================  ==================================================================================================

OffsetIndex: 1 list of PageLocation (1 i64 offset, 2 i32 size with header, 3 i64 first row).

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.parquet.page_headers import BYTES, HEADER, SIZE, page_headers
from lakeidx.data.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    field,
    list_of,
    number,
    read_field,
    read_list,
    read_varint,
    text,
    zigzag,
)
from lakeidx.errors import CorruptFileError

_MAGIC = b"PAR1"
_LENGTH = struct.Struct("<I")
# A PageLocation: three field headers, three numbers, the end.
_LEAST_PLACE = 7


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a column chunk.

    element       the column's SchemaElement, as it is in the footer
    name          the column
    physical      number of the physical type
    codec         number of the compression codec
    start, size   of the chunk, dictionary page included
    plain_size    bytes before compression; -1 when the footer does not say
    index_at, index_size   of its offset index
    """

    element: bytes
    name: str
    physical: int
    codec: int
    start: int
    size: int
    plain_size: int
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


def _page_file(
    stream: pa.NativeFile, chunks: Sequence[ChunkPlace], tables: Sequence[PageTable], pages: npt.NDArray[np.int64]
) -> tuple[bytes, int]:
    """Build a Parquet file of some pages of some columns: (its bytes, bytes that were read for it).

    chunks, tables   of the columns; the tables have the same rows
    pages            int64[k] rising numbers of pages
    """
    parts, columns, at = [_MAGIC], [], len(_MAGIC)
    rows = int((tables[0].rows[pages + 1] - tables[0].rows[pages]).sum())
    # Neighbours are read together.
    breaks = np.flatnonzero(np.diff(pages) > 1) + 1
    runs = [(int(r[0]), int(r[-1]) + 1) for r in np.split(pages, breaks)]
    for chunk, table in zip(chunks, tables, strict=True):
        dictionary = int(table.offsets[0]) - chunk.start
        pieces = [(chunk.start, dictionary)] if dictionary else []
        pieces += [(int(table.offsets[a]), int(table.offsets[b] - table.offsets[a])) for a, b in runs]
        data = b"".join(stream.read_at(size, offset) for offset, size in pieces)
        parts.append(data)
        columns.append(_column_chunk(chunk, rows, at, len(data), dictionary))
        at += len(data)
    footer = _footer(chunks, columns, rows, at)
    return b"".join((*parts, footer, _LENGTH.pack(len(footer)), _MAGIC)), at - len(_MAGIC)


def read_masked(
    stream: pa.NativeFile,
    alike: Sequence[Sequence[tuple[ChunkPlace, PageTable]]],
    mask: npt.NDArray[np.bool_],
    dictionaries: Collection[str] | None,
    *,
    where: tuple[str, int],
) -> tuple[pa.Table, int] | None:
    """Read the masked rows of columns by the pages they are in: (the rows, bytes that were read).

    alike         the columns, those together whose pages begin at the same rows
    mask          bool[n] of the row group's rows
    dictionaries  columns that stay as dictionaries
    where         path and row group, for errors
    returns       None when more than half of a column's pages hold such a row
    errors        CorruptFileError when a page holds another number of rows than its index says
    """
    chosen = []
    for columns in alike:
        rows = columns[0][1].rows
        chosen.append(np.flatnonzero(np.add.reduceat(mask, rows[:-1], dtype=np.int64)))
        if 2 * len(chosen[-1]) > len(rows):
            return None
    found: dict[str, pa.ChunkedArray] = {}
    size = 0
    for columns, pages in zip(alike, chosen, strict=True):
        places, tables = zip(*columns, strict=True)
        raw, cost = _page_file(stream, places, tables, pages)
        encoded = [p.name for p in places if p.name in (dictionaries or ())] or None
        file = pq.ParquetFile(pa.BufferReader(raw), read_dictionary=encoded, page_checksum_verification=True)
        read, rows = file.read(use_threads=False), tables[0].rows
        wanted = np.concatenate([mask[rows[p] : rows[p + 1]] for p in pages])
        if read.num_rows != len(wanted):
            raise CorruptFileError(
                f"row group {where[1]} has pages whose sizes differ from its page index", path=where[0]
            )
        picked = read.filter(pa.array(wanted))
        found |= zip(picked.column_names, picked.columns, strict=True)
        size += cost
    return pa.table(found), size


def _footer(chunks: Sequence[ChunkPlace], columns: Sequence[bytes], rows: int, size: int) -> bytes:
    root = field(4, BINARY) + text(b"schema") + field(1, I32) + number(len(chunks)) + b"\x00"
    elements = [root, *(c.element for c in chunks)]
    group = field(1, LIST) + list_of(columns, STRUCT) + field(1, I64) + number(size) + field(1, I64) + number(rows)
    return b"".join((
        field(1, I32), number(1), field(1, LIST), list_of(elements, STRUCT), field(1, I64), number(rows),
        field(1, LIST), list_of([group + b"\x00"], STRUCT), b"\x00",
    ))  # fmt: skip


def _column_chunk(chunk: ChunkPlace, rows: int, at: int, size: int, dictionary: int) -> bytes:
    meta = [
        field(1, I32), number(chunk.physical), field(1, LIST), list_of([number(0)], I32),
        field(1, LIST), list_of([text(chunk.name.encode())], BINARY), field(1, I32), number(chunk.codec),
        field(1, I64), number(rows), field(1, I64), number(size), field(1, I64), number(size),
        field(2, I64), number(at + dictionary),
    ]  # fmt: skip
    if dictionary:
        meta += [field(2, I64), number(at)]
    return b"".join((field(2, I64), number(0), field(1, STRUCT), *meta, b"\x00\x00"))


def pages_hold_their_rows(stream: pa.NativeFile, chunk: ChunkPlace, table: PageTable) -> bool:
    """Read the headers of a chunk's pages; return False when one is not where its offset index says, or has other rows."""
    begin, end = int(table.offsets[0]), chunk.start + chunk.size
    data = frozen(np.frombuffer(stream.read_at(end - begin, begin), np.uint8))
    starts = table.offsets - begin
    headers = np.empty((len(starts) - 1, HEADER), np.int64)
    if len(data) < end - begin or page_headers(data, starts, np.diff(table.rows), headers) >= 0:
        return False
    return bool((headers[:, SIZE] + headers[:, BYTES] == np.diff(starts)).all())
