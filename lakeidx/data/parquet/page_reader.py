"""Pages of column chunks: read together, checked and decompressed, unless they are kept from an earlier read.

A page is read, checked and decompressed as a whole, for compression knows no places.

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.containers.checksum import crc32_ranges
from lakeidx.codec.containers.compress import decompress_zstd, decompress_zstd_ranges
from lakeidx.codec.jit import frozen
from lakeidx.data.parquet import page_headers as page
from lakeidx.data.parquet.pages import ChunkPlace, PageTable
from lakeidx.errors import CorruptFileError

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

UNCOMPRESSED, ZSTD = 0, 6
#: Other codecs that pages may have, as Arrow names them.
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 7: "lz4_raw"}
_BITS_32 = 0xFFFF_FFFF
_FAULTS = {
    page.UNREADABLE: "the page header cannot be read",
    page.OTHER_TYPE: "the page index leads to a page of another type",
    page.OTHER_ROWS: "page sizes differ from the page index",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk to pick from.

    group, first   number of the row group, and the position of its first row in the file
    place, table   where it and its pages lie
    nullable       it has definition levels
    type           Arrow type of its values
    """

    group: int
    first: int
    place: ChunkPlace
    table: PageTable
    nullable: bool
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was checked and decompressed.

    header    int64[HEADER]
    body      what it holds
    address   of the body
    """

    header: Int64s
    body: Any
    address: int


class PageKeeper(Protocol):
    """Keeps pages of one data file between reads, as far as its memory allows.

    chunks   by row group and column, what `ParquetSource.chunk` found
    """

    chunks: dict[tuple[int, str], Chunk | None]

    def find(self, offsets: Sequence[int]) -> list[Page | None]:
        """Return the pages at some offsets; None for one that is not kept."""

    def offer(self, pages: dict[int, Page]) -> None:
        """Keep pages, by their offsets."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Some pages.

    headers   int64[p, HEADER]
    bodies    int64[p, 2]: address and size of what each holds
    held      keeps them in memory
    """

    headers: Int64s
    bodies: Int64s
    held: list[Any]


def damaged(chunk: Chunk, offset: int, what: str) -> CorruptFileError:
    """Return the error for a page at an offset of the file."""
    return CorruptFileError(f"column {chunk.place.name!r}, row group {chunk.group}: {what}", offset=offset)


class PageReader:
    """Reads pages of some chunks of one file.

    read   bytes that were read so far
    """

    def __init__(self, stream: pa.NativeFile, chunks: Sequence[Chunk], keeper: PageKeeper | None) -> None:
        self.read = 0
        self._stream, self._chunks, self._keeper = stream, chunks, keeper

    def pages(self, owners: Int64s, begins: Int64s, ends: Int64s, rows: Int64s) -> Pages:
        """Give pages, from memory or the file.

        owners         int64[p], which chunk each is of
        begins, ends   int64[p] in the file
        rows           int64[p], how many a data page must have; -1 of a dictionary page
        errors         CorruptFileError with the offset of the page that is damaged or has another number of rows
        """
        offsets = begins.tolist()
        found: list[Page | None] = [None] * len(offsets) if self._keeper is None else self._keeper.find(offsets)
        missing = [i for i, one in enumerate(found) if one is None]
        if missing:
            some = np.array(missing, np.int64)
            fresh = self._fresh(owners[some], begins[some], ends[some], rows[some])
            if self._keeper is not None:
                self._keeper.offer(
                    {offsets[i]: one for i, one in zip(missing, fresh, strict=True) if _is_worth_keeping(one)}
                )
            for i, one in zip(missing, fresh, strict=True):
                found[i] = one
        pages = [one for one in found if one is not None]
        bodies = np.array([(one.address, len(one.body)) for one in pages], np.int64).reshape(-1, 2)
        return Pages(np.array([one.header for one in pages]), bodies, [one.body for one in pages])

    def _fresh(self, owners: Int64s, begins: Int64s, ends: Int64s, rows: Int64s) -> list[Page]:
        """Read pages, check and decompress them."""
        starts = np.zeros(len(begins) + 1, np.int64)
        np.cumsum(ends - begins, out=starts[1:])
        raw = self._raw(begins, ends, starts)
        headers = np.empty((len(begins), page.HEADER), np.int64)
        bad = int(page.page_headers(frozen(raw), starts, rows, headers))
        if bad >= 0:
            raise self._damaged(owners, begins, bad >> 2, _FAULTS[bad & 3])
        firsts = starts[:-1] + headers[:, page.SIZE]
        view, at = raw.data, firsts.tolist()
        until = (firsts + headers[:, page.BYTES]).tolist()
        self._check_sums(headers, view, at, until, owners, begins)
        bodies = self._bodies(headers, view, at, until, owners, begins)
        addresses = [pa.py_buffer(body).address for body in bodies]
        return [Page(*each) for each in zip(headers, bodies, addresses, strict=True)]

    def _raw(self, begins: Int64s, ends: Int64s, starts: Int64s) -> Bytes:
        """Read ranges of the file, neighbours together, to where they start in memory."""
        raw = np.empty(int(starts[-1]), np.uint8)
        cuts = [0, *(np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist(), len(begins)]
        for a, b in itertools.pairwise(cuts):
            size = int(starts[b] - starts[a])
            self._stream.seek(int(begins[a]))
            if self._stream.readinto(raw[starts[a] : starts[b]]) != size:
                raise CorruptFileError("the file ends within a page", offset=int(begins[a]))
        self.read += len(raw)
        return raw

    def _check_sums(
        self, headers: Int64s, data: memoryview, at: Sequence[int], until: Sequence[int], owners: Int64s, begins: Int64s
    ) -> None:
        if not headers[:, page.HAS_CRC].any():
            return
        expected, found = headers[:, page.CRC] & _BITS_32, crc32_ranges(data, at, until)
        wrong = np.flatnonzero((headers[:, page.HAS_CRC] != 0) & (expected != found))
        if len(wrong):
            i = int(wrong[0])
            what = f"the page's checksum is {expected[i]:#010x}, that of its bytes {found[i]:#010x}"
            raise self._damaged(owners, begins, i, what)

    def _bodies(
        self, headers: Int64s, view: memoryview, at: list[int], until: list[int], owners: Int64s, begins: Int64s
    ) -> Sequence[Any]:
        sizes = headers[:, page.PLAIN_BYTES].tolist()
        codecs = {self._chunks[i].place.codec for i in set(owners.tolist())}
        if codecs == {ZSTD} and page.DATA_2 not in headers[:, page.KIND].tolist():
            # What is wrong with a page is said by the way of the others.
            with contextlib.suppress(CorruptFileError):
                return decompress_zstd_ranges(view, at, until, sizes)
        return [
            _body(self._chunks[owner], header, view[a:b], begin)
            for owner, header, a, b, begin in zip(
                owners.tolist(), headers.tolist(), at, until, begins.tolist(), strict=True
            )
        ]

    def _damaged(self, owners: Int64s, begins: Int64s, i: int, what: str) -> CorruptFileError:
        return damaged(self._chunks[int(owners[i])], int(begins[i]), what)


def _is_worth_keeping(one: Page) -> bool:
    """Return False for pages that are as soon read again, or that would keep all that was read with them."""
    header = one.header
    shrunk = header[page.BYTES] < header[page.PLAIN_BYTES] or header[page.KIND] == page.DICTIONARY_PAGE
    return bool(shrunk) and not isinstance(one.body, memoryview)


def _body(chunk: Chunk, header: list[int], body: memoryview, offset: int) -> Any:
    """Decompress a page, perhaps of version 2: its levels are never compressed."""
    size = header[page.PLAIN_BYTES]
    if header[page.KIND] != page.DATA_2:
        return _decompressed(chunk, body, size, offset)
    front = header[page.DEFINITION]
    if header[page.REPETITION] > 0 or not 0 <= front <= min(len(body), size):
        raise damaged(chunk, offset, "the levels reach beyond the page")
    values = body[front:]
    if header[page.COMPRESSED]:
        values = _decompressed(chunk, values, size - front, offset)
    return b"".join((body[:front], values))


def _decompressed(chunk: Chunk, body: memoryview, size: int, offset: int) -> Any:
    codec = chunk.place.codec
    if codec == UNCOMPRESSED or not size:
        return body[:size]
    try:
        if codec == ZSTD:
            found = decompress_zstd(body, size)
        else:
            found = pa.Codec(CODECS[codec]).decompress(pa.py_buffer(body), size)
    except (CorruptFileError, pa.ArrowException, OSError, ValueError) as error:
        raise damaged(chunk, offset, f"the page cannot be decompressed: {error}") from error
    if len(found) != size:
        raise damaged(chunk, offset, f"the page has {len(found)} bytes before compression, its header says {size}")
    return found
