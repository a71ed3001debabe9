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

source   parquet-format 2.10 ``parquet.thrift``; Thrift compact protocol
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.codec.varint import encode_varint

_MAGIC = b"PAR1"
_LENGTH = struct.Struct("<I")
# A PageLocation: three field headers, three numbers, the end.
_LEAST_PLACE = 7
# Thrift compact type codes.
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a column chunk lies.

    element       the column's SchemaElement, as it stands in the footer
    name          the column
    physical      number of the physical type
    codec         number of the compression codec
    start, size   of the chunk, dictionary page included
    index_at, index_size   of its offset index
    """

    element: bytes
    name: str
    physical: int
    codec: int
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
    """The pages of a chunk by its offset index; None when it does not describe the whole chunk, page after page.

    data    the offset index
    rows    rows of the row group
    """
    found = np.empty((max(1, len(data) // _LEAST_PLACE), 3), np.int64)
    count = walk_offset_index(frozen(np.frombuffer(data, np.uint8)), found)
    if count < 1:
        return None
    offsets, sizes, firsts = found[:count].T
    end = offsets[-1] + sizes[-1]
    table = PageTable(np.append(offsets, end), np.append(firsts, rows))
    if firsts[0] != 0 or (np.diff(table.rows) <= 0).any() or (sizes <= 0).any():
        return None
    if (offsets[:-1] + sizes[:-1] != offsets[1:]).any() or offsets[0] < chunk.start or end != chunk.start + chunk.size:
        return None
    return table


@kernel
def walk_offset_index(data: Any, out: Any) -> Any:
    """Fill out int64[n, 3] with offset, size and first row of each page; their number, or -1 for anything else."""
    if len(data) < 2 or data[0] != 0x19:
        return -1
    at, count = 2, np.int64(data[1]) >> 4
    if data[1] & 15 != 12:
        return -1
    if count == 15:
        count, shift = np.int64(0), 0
        while True:
            if at >= len(data) or shift > 28:
                return -1
            byte = np.int64(data[at])
            at += 1
            count |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
    if count > len(out):
        return -1
    for page in range(count):
        for i in range(3):
            # Fields 1 (i64), 2 (i32) and 3 (i64), each one after the other.
            if at >= len(data) or data[at] != (0x15 if i == 1 else 0x16):
                return -1
            at += 1
            value, bits = np.uint64(0), np.uint64(0)
            while True:
                if at >= len(data) or bits > 63:
                    return -1
                part = np.uint64(data[at])
                at += 1
                value |= (part & np.uint64(127)) << bits
                bits += np.uint64(7)
                if part < 128:
                    break
            # Negative numbers are odd in zigzag form; none of these is negative.
            if value & np.uint64(1):
                return -1
            out[page, i] = np.int64(value >> np.uint64(1))
        if at >= len(data) or data[at] != 0:
            return -1
        at += 1
    return count


def page_file(
    stream: pa.NativeFile, chunks: Sequence[ChunkPlace], tables: Sequence[PageTable], pages: npt.NDArray[np.int64]
) -> tuple[bytes, int]:
    """(a Parquet file of some pages of some columns, bytes that were read for it).

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


def _footer(chunks: Sequence[ChunkPlace], columns: Sequence[bytes], rows: int, size: int) -> bytes:
    root = _field(4, _BINARY) + _text("schema") + _field(1, _I32) + _number(len(chunks)) + b"\x00"
    elements = [root, *(c.element for c in chunks)]
    group = (
        _field(1, _LIST) + _list(columns, _STRUCT) + _field(1, _I64) + _number(size) + _field(1, _I64) + _number(rows)
    )
    return b"".join((
        _field(1, _I32), _number(1), _field(1, _LIST), _list(elements, _STRUCT), _field(1, _I64), _number(rows),
        _field(1, _LIST), _list([group + b"\x00"], _STRUCT), b"\x00",
    ))  # fmt: skip


def _column_chunk(chunk: ChunkPlace, rows: int, at: int, size: int, dictionary: int) -> bytes:
    meta = [
        _field(1, _I32), _number(chunk.physical), _field(1, _LIST), _list([_number(0)], _I32),
        _field(1, _LIST), _list([_text(chunk.name)], _BINARY), _field(1, _I32), _number(chunk.codec),
        _field(1, _I64), _number(rows), _field(1, _I64), _number(size), _field(1, _I64), _number(size),
        _field(2, _I64), _number(at + dictionary),
    ]  # fmt: skip
    if dictionary:
        meta += [_field(2, _I64), _number(at)]
    return b"".join((_field(2, _I64), _number(0), _field(1, _STRUCT), *meta, b"\x00\x00"))


def _field(delta: int, kind: int) -> bytes:
    return bytes([delta << 4 | kind])


def _number(n: int) -> bytes:
    return encode_varint(n << 1 if n >= 0 else (-n << 1) - 1)


def _text(text: str) -> bytes:
    raw = text.encode()
    return encode_varint(len(raw)) + raw


def _list(items: Sequence[bytes], kind: int) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + encode_varint(len(items))
    return head + b"".join(items)
