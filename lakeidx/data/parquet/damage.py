"""Damage of a Parquet file found: the first page that cannot be decoded, for the error that names it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.data.parquet.chunks import _DAMAGE, _first_line
from lakeidx.data.parquet.thrift import I32, decode_struct
from lakeidx.errors import CorruptFileError

_BITS_32 = 0xFFFF_FFFF
#: Fields of a page header, as `decode_struct` names them: the bytes of the page in the file, and their CRC-32.
PAGE_BYTES, _CHECKSUM = (3, I32), (4, I32)


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
        try:
            header, begin = decode_struct(chunk, at)
            size = header[PAGE_BYTES]
        except (CorruptFileError, ValueError, LookupError):
            size = -1
        if size < 0:
            return at, "the page header cannot be read"
        page = chunk[begin : begin + size]
        if len(page) < size:
            return at, f"a page of {size} bytes reaches beyond its column chunk"
        found = zlib.crc32(page)
        # A signed number in the header.
        checksum = header.get(_CHECKSUM, found) & _BITS_32
        if checksum != found:
            return at, f"the page's checksum is {checksum:#010x}, that of its bytes {found:#010x}"
        at = begin + size
    return None
