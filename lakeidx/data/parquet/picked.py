"""Values of a column chunk at a few rows, taken out of its pages without decoding the rest.

A page is read, checked and decompressed as a whole, for compression knows no places; then only the wanted rows' values are made
(`page_kernels`). Columns of other types or with pages of other encodings are left to Arrow.

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.containers.checksum import crc32_ranges
from lakeidx.codec.containers.compress import decompress_zstd, decompress_zstd_ranges
from lakeidx.codec.jit import frozen
from lakeidx.data.parquet import page_headers as page
from lakeidx.data.parquet import page_kernels as pages
from lakeidx.data.parquet.pages import ChunkPlace, PageTable
from lakeidx.errors import CorruptFileError

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY = 1, 2, 4, 5, 6
_WIDTHS = {_INT32: 4, _INT64: 8, _FLOAT: 4, _DOUBLE: 8}
_UNCOMPRESSED, _ZSTD = 0, 6
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 7: "lz4_raw"}
# Neighbouring pages are read together up to this size: what is larger no longer fits the cache when its turn comes.
_TOGETHER_BYTES = 1 << 18
# So much of decompressed pages is decoded by one call.
_DECODED_TOGETHER_BYTES = 1 << 19
_BITS_32 = 0xFFFF_FFFF
_DICTIONARIES = frozenset((pages.DICTIONARY, pages.OLD_DICTIONARY))
_FAULTS = {
    page.UNREADABLE: "the page header cannot be read",
    page.OTHER_TYPE: "the page index leads to a page of another type",
    page.OTHER_ROWS: "page sizes differ from the page index",
}
_NO_ROWS = np.zeros(0, np.int64)
_NO_DICTIONARY = (np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))


class _OtherEncodingError(Exception):
    """A page that is not encoded in a way this module knows."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk to pick from.

    group          number of the row group
    place, table   where it and its pages lie
    nullable       it has definition levels
    type           Arrow type of its values
    """

    group: int
    place: ChunkPlace
    table: PageTable
    nullable: bool
    type: pa.DataType


class PageKeeper(Protocol):
    """Keeps pages of one data file between reads, as far as its memory allows.

    chunks   by row group and column, what `ParquetSource.chunk` found
    """

    chunks: dict[tuple[int, str], Chunk | None]

    def find(self, offsets: Sequence[int]) -> list[tuple[Int64s, Bytes] | None]:
        """Return of the pages at some offsets the headers, int64[1, HEADER], and what they hold; None for one that is not kept."""

    def offer(self, offset: int, header: Int64s, body: bytes) -> None:
        """Keep a page that was checked and decompressed."""


def can_pick(place: ChunkPlace, value_type: pa.DataType) -> bool:
    """Return whether values of a column can be picked, whatever the encoding of its pages."""
    t = value_type.value_type if pa.types.is_dictionary(value_type) else value_type
    if place.codec not in (_UNCOMPRESSED, _ZSTD, *_CODECS):
        return False
    if place.physical == _BYTE_ARRAY:
        return bool(pa.types.is_string(t) or pa.types.is_binary(t))
    if place.physical in (_FLOAT, _DOUBLE):
        return bool(pa.types.is_floating(t) and t.bit_width == 8 * _WIDTHS[place.physical])
    return place.physical in (_INT32, _INT64) and bool(
        pa.types.is_signed_integer(t) or pa.types.is_date32(t) or pa.types.is_time(t) or pa.types.is_timestamp(t)
        or pa.types.is_decimal128(t)
    )  # fmt: skip


def pick(
    stream: pa.NativeFile, chunk: Chunk, rows: Int64s, keeper: PageKeeper | None = None
) -> tuple[pa.Array, int] | None:
    """Give the values of a chunk at rows of its row group, and how many bytes were read for it.

    rows      int64[k], k > 0, rising
    keeper    of pages that stay between reads
    returns   plain values, never dictionaries; None when a page is encoded in another way
    errors    CorruptFileError with the offset of the page that is damaged or has another number of rows than its index says
    """
    try:
        return _Picker(stream, chunk, rows, keeper).values()
    except _OtherEncodingError:
        return None


class _Picker:
    """One pass over the pages of a chunk that hold wanted rows."""

    def __init__(self, stream: pa.NativeFile, chunk: Chunk, rows: Int64s, keeper: PageKeeper | None) -> None:
        self._stream, self._chunk, self._rows, self._keeper = stream, chunk, rows, keeper
        self._strings = chunk.place.physical == _BYTE_ARRAY
        self._width = _WIDTHS.get(chunk.place.physical, 0)
        self._out = np.empty(len(rows), np.int64)
        self._sizes = np.empty(len(rows) if self._strings else 0, np.int64)
        self._nulls = np.empty(len(rows) if chunk.nullable else 0, np.bool_)
        self._texts: list[Bytes] = []
        self._read = 0
        self._dictionary: tuple[Bytes, Int64s, Int64s] | None = None
        whole = chunk.place.physical in (_INT32, _INT64)
        self._known = _DICTIONARIES | ({pages.PLAIN, pages.DELTA} if whole else {pages.PLAIN})

    def values(self) -> tuple[pa.Array, int]:
        """Read and pick."""
        table = self._chunk.table
        cuts = np.searchsorted(self._rows, table.rows)
        wanted = np.flatnonzero(cuts[1:] > cuts[:-1])
        cuts = np.append(cuts[wanted], len(self._rows))
        headers: list[Int64s] = []
        bodies: list[Any] = []
        size = begun = done = 0
        offsets = table.offsets[wanted].tolist()
        kept = [None] * len(offsets) if self._keeper is None else self._keeper.find(offsets)
        for first, end in self._runs(wanted.tolist(), kept):
            page_kept = kept[done]
            if page_kept is None:
                heads, found = self._pages(table.offsets[first : end + 1], table.rows[first : end + 1])
                self._offer(offsets[done:], heads, found)
            else:
                heads, found = page_kept[0], [page_kept[1]]
            headers.append(heads)
            bodies += found
            done += end - first
            size += sum(map(len, found))
            if size > _DECODED_TOGETHER_BYTES or done == len(wanted):
                self._pick(wanted[begun:done], cuts[begun : done + 1], headers, bodies)
                headers, bodies, size, begun = [], [], 0, done
        return self._array(), self._read

    def _offer(self, offsets: Sequence[int], headers: Int64s, bodies: Sequence[Any]) -> None:
        """Have the pages kept that were worth compressing: the others are as soon read again."""
        if self._keeper is None:
            return
        for i in np.flatnonzero(headers[:, page.BYTES] < headers[:, page.PLAIN_BYTES]).tolist():
            self._keeper.offer(offsets[i], headers[i : i + 1], bodies[i])

    def _runs(self, wanted: list[int], kept: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Cut the numbers of pages into runs that are read together: (first page, page after the last); a kept one is alone."""
        offsets = self._chunk.table.offsets.tolist()
        i = 0
        while i < len(wanted):
            j = i + 1
            most = offsets[wanted[i]] + _TOGETHER_BYTES
            while (
                kept[i] is None and j < len(wanted) and kept[j] is None
                and wanted[j] == wanted[j - 1] + 1 and offsets[wanted[j] + 1] <= most
            ):  # fmt: skip
                j += 1
            yield wanted[i], wanted[j - 1] + 1
            i = j

    def _pick(self, numbers: Int64s, cuts: Int64s, heads: list[Int64s], bodies: list[Any]) -> None:
        """Pick the wanted rows of some pages.

        numbers   int64[p] of the pages
        cuts      int64[p + 1], which of the rows are each page's
        """
        table = self._chunk.table
        headers = heads[0] if len(heads) == 1 else np.concatenate(heads)
        encodings = set(headers[:, page.ENCODING].tolist())
        if not encodings <= self._known:
            raise _OtherEncodingError
        coded = not encodings.isdisjoint(_DICTIONARIES)
        body, values, lengths = self._read_dictionary() if coded else _NO_DICTIONARY
        data = frozen(np.frombuffer(bodies[0] if len(bodies) == 1 else b"".join(bodies), np.uint8))
        starts = np.array([0, *itertools.accumulate(map(len, bodies))], np.int64)
        a, b = int(cuts[0]), int(cuts[-1])
        out, sizes = self._out[a:b], self._sizes[a:b]
        bad = int(pages.pick_pages(
            data, starts, headers, self._rows[a:b], table.rows[numbers], cuts - a, self._width, self._chunk.nullable,
            values, lengths, out, sizes, self._nulls[a:b],
        ))  # fmt: skip
        if bad >= 0:
            raise self._damaged(int(table.offsets[numbers[bad]]), "the page cannot be decoded")
        if self._strings:
            text = np.empty(int(sizes.sum()), np.uint8)
            pages.copy_strings(data, frozen(body), out, sizes, text)
            self._texts.append(text)

    def _pages(self, offsets: Int64s, rows: Int64s) -> tuple[Int64s, list[Any]]:
        """Read a run of pages, check and decompress them: int64[p, HEADER], and the bytes of each.

        offsets   int64[p + 1] in the file
        rows      int64[p + 1] first rows of data pages; of length 0 for the dictionary
        """
        begin, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        raw = self._stream.read_at(size, begin)
        self._read += size
        headers = np.empty((len(offsets) - 1, page.HEADER), np.int64)
        starts = offsets - begin
        bad = int(page.page_headers(frozen(np.frombuffer(raw, np.uint8)), starts, rows, headers))
        if bad >= 0:
            raise self._damaged(int(offsets[bad >> 2]), _FAULTS[bad & 3])
        if (
            self._chunk.nullable
            and ((headers[:, page.KIND] == page.DATA) & (headers[:, page.LEVELS] != page.RUNS)).any()
        ):
            raise _OtherEncodingError
        begins = starts[:-1] + headers[:, page.SIZE]
        view, at = memoryview(raw), begins.tolist()
        ends = (begins + headers[:, page.BYTES]).tolist()
        self._check_sums(headers, view, at, ends, offsets)
        sizes = headers[:, page.PLAIN_BYTES].tolist()
        of_version_2 = page.DATA_2 in headers[:, page.KIND].tolist()
        if self._chunk.place.codec == _ZSTD and not of_version_2:
            # What is wrong with a page is said by the way of the others.
            with contextlib.suppress(CorruptFileError):
                return headers, decompress_zstd_ranges(view, at, ends, sizes)
        stored, places = [view[a:b] for a, b in zip(at, ends, strict=True)], offsets.tolist()
        if of_version_2:
            return headers, [self._body(*each) for each in zip(headers.tolist(), stored, places, strict=False)]
        return headers, [self._decompressed(*each) for each in zip(stored, sizes, places, strict=False)]

    def _check_sums(
        self, headers: Int64s, data: memoryview, begins: Sequence[int], ends: Sequence[int], offsets: Int64s
    ) -> None:
        if not headers[:, page.HAS_CRC].any():
            return
        expected, found = headers[:, page.CRC] & _BITS_32, crc32_ranges(data, begins, ends)
        wrong = np.flatnonzero((headers[:, page.HAS_CRC] != 0) & (expected != found))
        if len(wrong):
            i = int(wrong[0])
            raise self._damaged(
                int(offsets[i]), f"the page's checksum is {expected[i]:#010x}, that of its bytes {found[i]:#010x}"
            )

    def _body(self, header: list[int], body: memoryview, offset: int) -> Any:
        """Decompress a page, perhaps of version 2: its levels are never compressed."""
        size = header[page.PLAIN_BYTES]
        if header[page.KIND] != page.DATA_2:
            return self._decompressed(body, size, offset)
        front = header[page.DEFINITION]
        if header[page.REPETITION] > 0 or not 0 <= front <= min(len(body), size):
            raise self._damaged(offset, "the levels reach beyond the page")
        values = body[front:]
        if header[page.COMPRESSED]:
            values = self._decompressed(values, size - front, offset)
        return b"".join((body[:front], values))

    def _decompressed(self, body: memoryview, size: int, offset: int) -> Any:
        codec = self._chunk.place.codec
        if codec == _UNCOMPRESSED or not size:
            return body[:size]
        try:
            if codec == _ZSTD:
                found = decompress_zstd(body, size)
            else:
                found = pa.Codec(_CODECS[codec]).decompress(pa.py_buffer(body), size)
        except (CorruptFileError, pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(offset, f"the page cannot be decompressed: {error}") from error
        if len(found) != size:
            raise self._damaged(offset, f"the page has {len(found)} bytes before compression, its header says {size}")
        return found

    def _read_dictionary(self) -> tuple[Bytes, Int64s, Int64s]:
        """Read the dictionary once: the bytes of its page, and its numbers, or where its byte strings begin and their sizes."""
        if self._dictionary is None:
            place = self._chunk.place
            offsets = np.array([place.start, self._chunk.table.offsets[0]], np.int64)
            if offsets[0] == offsets[1]:
                raise self._damaged(place.start, "pages refer to a dictionary that is not there")
            headers, bodies = self._pages(offsets, _NO_ROWS)
            body = np.frombuffer(bodies[0], np.uint8)
            header = headers[0].tolist()
            count = header[page.VALUES]
            if count > len(body):
                raise self._damaged(place.start, "the dictionary cannot be decoded")
            if header[page.ENCODING] not in (pages.PLAIN, pages.OLD_DICTIONARY):
                raise _OtherEncodingError
            values, lengths = np.empty(count, np.int64), np.empty(count if self._strings else 0, np.int64)
            if pages.pick_dictionary(frozen(body), self._width, values, lengths) < 0:
                raise self._damaged(place.start, "the dictionary cannot be decoded")
            self._dictionary = body, values, lengths
        return self._dictionary

    def _array(self) -> pa.Array:
        """Make the Arrow array of what was picked."""
        t = self._chunk.type.value_type if pa.types.is_dictionary(self._chunk.type) else self._chunk.type
        validity = pa.array(~self._nulls).buffers()[1] if self._nulls.any() else None
        if self._strings:
            offsets = np.zeros(len(self._rows) + 1, np.int32)
            np.cumsum(self._sizes, out=offsets[1:])
            buffers: list[Any] = [validity, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(self._texts))]
        elif pa.types.is_decimal(t):
            wide = np.empty((len(self._rows), 2), np.int64)
            wide[:, 0], wide[:, 1] = self._out, self._out >> 63
            if self._width == 4:
                wide[:, 0] = self._out.astype(np.int32)
                wide[:, 1] = wide[:, 0] >> 63
            buffers = [validity, pa.py_buffer(wide)]
        else:
            buffers = [validity, pa.py_buffer(self._out.astype(f"<i{t.bit_width // 8}", copy=False))]
        return pa.Array.from_buffers(t, len(self._rows), buffers)

    def _damaged(self, offset: int, what: str) -> CorruptFileError:
        return CorruptFileError(
            f"column {self._chunk.place.name!r}, row group {self._chunk.group}: {what}", offset=offset
        )
