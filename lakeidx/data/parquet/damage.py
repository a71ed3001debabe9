"""Damage of a Parquet file found: the first page that cannot be decoded, for the error that names it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.data.parquet.chunks import _DAMAGE, _first_line
from lakeidx.data.parquet.thrift import I32, read_field, read_varint, skip, zigzag

_BITS_32 = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """Place of a column chunk. Arrow's own footer is not used: it aborts the process on some damaged ones.

    column        dotted path of the leaf column
    leaf          its number in the file
    start, size   bytes, dictionary page included
    """

    column: str
    leaf: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage of one page.

    column   dotted path of the column
    offset   of the page's header in the file, bytes
    """

    column: str
    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class _PageHeader:
    """Size of the header and, if it has them, of the page; CRC-32 as an unsigned number."""

    size: int
    page_size: int
    checksum: int | None


def find_damage(stream: pa.NativeFile, chunks: Sequence[ColumnChunk]) -> Damage | None:
    """Find the first page of some column chunks whose header or checksum is wrong; None when all are right, or carry none.

    memory    one column chunk, and never more than the file
    """
    for chunk in chunks:
        end = chunk.start + chunk.size
        if end > stream.size():
            return Damage(chunk.column, chunk.start, f"a column chunk of {chunk.size} bytes reaches beyond the file")
        wrong = _first_wrong_page(stream.read_at(chunk.size, chunk.start))
        if wrong is not None:
            return Damage(chunk.column, chunk.start + wrong[0], wrong[1])
    return None


def _find_undecodable(file: pq.ParquetFile, group: int, chunks: Sequence[ColumnChunk]) -> Damage | None:
    """Find the first column of a row group that cannot be decoded by itself: for files whose pages carry no checksum."""
    for chunk in chunks:
        try:
            file.reader.read_row_group(group, column_indices=[chunk.leaf], use_threads=False)
        except _DAMAGE as error:
            return Damage(chunk.column, chunk.start, f"its pages cannot be decoded: {_first_line(error)}")
    return None


def _first_wrong_page(chunk: bytes) -> tuple[int, str] | None:
    at = 0
    while at < len(chunk):
        header = _page_header(chunk, at)
        if header is None:
            return at, "the page header cannot be read"
        begin = at + header.size
        page = chunk[begin : begin + header.page_size]
        if len(page) < header.page_size:
            return at, f"a page of {header.page_size} bytes reaches beyond its column chunk"
        found = zlib.crc32(page)
        if header.checksum is not None and header.checksum != found:
            return at, f"the page's checksum is {header.checksum:#010x}, that of its bytes {found:#010x}"
        at = begin + header.page_size
    return None


def _page_header(chunk: bytes, at: int) -> _PageHeader | None:
    found = np.full(5, -1, np.int64)
    size = _walk_page_header(frozen(np.frombuffer(chunk, np.uint8, offset=at)), found)
    if size < 0 or found[3] < 0:
        return None
    # The checksum is a signed number in the header; -1 alone does not tell it from none.
    return _PageHeader(int(size), int(found[3]), int(found[4]) & _BITS_32 if found[0] & 1 << 4 else None)


@kernel
def _walk_page_header(data: Any, out: Any) -> Any:
    """Put the fields 1 to 4, and into place 0 a bit for each that is present; return the bytes of the header, or -1."""
    at, last = np.int64(0), np.int64(0)
    out[0] = 0
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if kind == I32 and 1 <= last <= 4:
            value, at = read_varint(data, at)
            out[last] = zigzag(value)
            out[0] |= 1 << last
        else:
            at = skip(data, at, kind)
        if at < 0:
            return at
