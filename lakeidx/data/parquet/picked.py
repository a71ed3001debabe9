"""Values of columns at a few rows, taken out of their pages without decoding the rest.

All columns go together: one plan of their pages, and a call for each step over many of them (`page_reader`, `page_kernels`).
Columns of other types or with pages of other encodings are left to Arrow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.parquet import page_headers as page
from lakeidx.data.parquet import page_kernels as kernels
from lakeidx.data.parquet.page_reader import CODECS, UNCOMPRESSED, ZSTD, Chunk, PageKeeper, PageReader, Pages, damaged
from lakeidx.data.parquet.pages import ChunkPlace

Int64s = npt.NDArray[np.int64]

_INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY = 1, 2, 4, 5, 6
_WIDTHS = {_INT32: 4, _INT64: 8, _FLOAT: 4, _DOUBLE: 8}
# So many bytes of pages, before compression, are worked on together: enough that a call costs little beside them.
_TOGETHER_BYTES = 1 << 23


def can_pick(place: ChunkPlace, value_type: pa.DataType) -> bool:
    """Return whether values of a column can be picked, whatever the encoding of its pages."""
    t = value_type.value_type if pa.types.is_dictionary(value_type) else value_type
    if place.codec not in (UNCOMPRESSED, ZSTD, *CODECS):
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
    stream: pa.NativeFile, columns: Sequence[Sequence[Chunk]], rows: Int64s, keeper: PageKeeper | None = None
) -> tuple[list[pa.Array | None], int]:
    """Return the values of columns at some rows, and the number of bytes read for it.

    columns   of each its chunks in some row groups, one after another; all of the same row groups
    rows      int64[k], k > 0, rising: positions in the file, all of them in these row groups
    keeper    of pages that stay between reads
    returns   plain values, never dictionaries; None for a column with a page that is encoded in another way
    errors    CorruptFileError with the offset of the page that is damaged or has another number of rows than its index says
    """
    return _Picker(stream, columns, rows, keeper).values()


class _Picker:
    """One pass over the pages of some columns that contain wanted rows."""

    def __init__(
        self, stream: pa.NativeFile, columns: Sequence[Sequence[Chunk]], rows: Int64s, keeper: PageKeeper | None
    ) -> None:
        # As they lie in the file: row group by row group.
        self._chunks = [chunks[g] for g in range(len(columns[0])) for chunks in columns]
        self._firsts = [chunks[0] for chunks in columns]
        self._rows = rows
        self._reader = PageReader(stream, self._chunks, keeper)
        # As kernels take them: the width of a number, 0 for byte strings, and whether there are levels.
        self._columns = np.array([(_WIDTHS.get(c.place.physical, 0), c.nullable) for c in self._firsts], np.int64)
        self._whole = np.array([c.place.physical in (_INT32, _INT64) for c in self._firsts])
        shape = (len(columns), len(rows))
        self._out, self._sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._nulls = np.zeros(shape, np.bool_)
        self._texts: list[npt.NDArray[np.uint8]] = []
        self._other: set[int] = set()
        # By chunk, and what keeps them in memory.
        self._dictionaries = np.zeros((len(self._chunks), 3), np.int64)
        self._held: dict[int, Any] = {}

    def values(self) -> tuple[list[pa.Array | None], int]:
        """Read and pick."""
        chunks, tables = self._chunks, [c.table for c in self._chunks]
        firsts = np.concatenate([c.table.rows + c.first for c in chunks])
        offsets = np.concatenate([t.offsets for t in tables])
        # The end of a chunk is an entry of its own: no row lies between it and the first one of the next chunk.
        cuts = np.searchsorted(self._rows, firsts)
        wanted = np.flatnonzero(cuts[1:] > cuts[:-1])
        owners = np.repeat(np.arange(len(chunks)), [len(t.rows) for t in tables])[wanted]
        begins, ends, rows = offsets[wanted], offsets[wanted + 1], firsts[wanted + 1] - firsts[wanted]
        places = np.stack([owners % len(self._firsts), firsts[wanted], cuts[wanted], cuts[wanted + 1]], axis=1)
        for part in self._parts(owners, ends - begins):
            pages = self._reader.pages(owners[part], begins[part], ends[part], rows[part])
            self._pick(owners[part], places[part], begins[part], pages)
        arrays = [None if i in self._other else self._array(i) for i in range(len(self._firsts))]
        return arrays, self._reader.read

    def _parts(self, owners: Int64s, sizes: Int64s) -> Iterator[slice]:
        """Cut pages into parts of about this many bytes before compression, by the footer's sizes of their chunks."""
        growth = np.array([c.place.plain_size / max(1, c.place.size) for c in self._chunks])
        part = np.cumsum(sizes * np.maximum(1, growth)[owners]) // _TOGETHER_BYTES
        return itertools.starmap(
            slice, itertools.pairwise([0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(sizes)])
        )

    def _pick(self, owners: Int64s, places: Int64s, begins: Int64s, pages: Pages) -> None:
        """Pick the wanted rows of some pages."""
        encodings, columns = pages.headers[:, page.ENCODING], places[:, 0]
        coded = (encodings == kernels.DICTIONARY) | (encodings == kernels.OLD_DICTIONARY)
        known = coded | (encodings == kernels.PLAIN) | ((encodings == kernels.DELTA) & self._whole[columns])
        runs = (pages.headers[:, page.KIND] == page.DATA_2) | (pages.headers[:, page.LEVELS] == page.RUNS)
        known &= runs | (self._columns[columns, 1] == 0)
        self._other.update(columns[~known].tolist())
        self._read_dictionaries(np.unique(owners[coded]).tolist())
        mine = slice(None) if not self._other else np.flatnonzero(~np.isin(columns, list(self._other)))
        places, owners = np.ascontiguousarray(places[mine]), owners[mine]
        size = int(kernels.pick_pages(
            pages.bodies[mine], pages.headers[mine], places, self._rows, self._columns, self._dictionaries[owners],
            self._out, self._sizes, self._nulls,
        ))  # fmt: skip
        if size < 0:
            bad = -1 - size
            raise damaged(self._chunks[owners[bad]], int(begins[mine][bad]), "the page cannot be decoded")
        if size:
            text = np.empty(size, np.uint8)
            kernels.keep_strings(places, self._columns, self._out, self._sizes, text.ctypes.data)
            self._texts.append(text)

    def _read_dictionaries(self, wanted: list[int]) -> None:
        """Read the dictionaries of chunks and forget those of others."""
        self._held = {i: held for i, held in self._held.items() if i in wanted}
        new = [i for i in wanted if i not in self._held and i % len(self._firsts) not in self._other]
        if not new:
            return
        begins = np.array([self._chunks[i].place.start for i in new], np.int64)
        ends = np.array([self._chunks[i].table.offsets[0] for i in new], np.int64)
        for i in np.flatnonzero(begins == ends).tolist():
            raise damaged(self._chunks[new[i]], int(begins[i]), "pages refer to a dictionary that is not there")
        pages = self._reader.pages(np.array(new, np.int64), begins, ends, np.full(len(new), -1))
        headers, bodies = pages.headers.tolist(), pages.bodies.tolist()
        for i, header, (address, size), body in zip(new, headers, bodies, pages.held, strict=True):
            if header[page.ENCODING] in (kernels.PLAIN, kernels.OLD_DICTIONARY):
                self._held[i] = body, self._describe_dictionary(i, address, size, header[page.VALUES])
            else:
                self._other.add(i % len(self._firsts))

    def _describe_dictionary(self, i: int, address: int, size: int, count: int) -> npt.NDArray[np.int64] | None:
        """Have kernels find the values of a chunk's dictionary, by addresses in what is returned."""
        width, strings = int(self._columns[i % len(self._firsts), 0]), None
        fits = count * max(1, width) <= size
        if fits and width == 0:
            strings = np.empty((2, count), np.int64)
            fits = kernels.find_strings(address, size, strings[0], strings[1]) >= 0
            self._dictionaries[i] = strings[0].ctypes.data, strings[1].ctypes.data, count
        else:
            self._dictionaries[i] = address, 0, count
        if not fits:
            raise damaged(self._chunks[i], self._chunks[i].place.start, "the dictionary cannot be decoded")
        return strings

    def _array(self, i: int) -> pa.Array:
        """Make the Arrow array of what was picked of a column."""
        of, out, n = self._firsts[i], self._out[i], len(self._rows)
        t = of.type.value_type if pa.types.is_dictionary(of.type) else of.type
        validity = pa.array(~self._nulls[i]).buffers()[1] if of.nullable and self._nulls[i].any() else None
        if of.place.physical == _BYTE_ARRAY:
            offsets = np.zeros(n + 1, np.int32)
            np.cumsum(self._sizes[i], out=offsets[1:])
            text = np.empty(int(offsets[-1]), np.uint8)
            kernels.copy_strings(out, self._sizes[i], text.ctypes.data)
            buffers: list[Any] = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        elif pa.types.is_decimal(t):
            wide = np.empty((n, 2), np.int64)
            wide[:, 0] = out.astype(np.int32) if self._columns[i, 0] == 4 else out
            wide[:, 1] = wide[:, 0] >> 63
            buffers = [validity, pa.py_buffer(wide)]
        else:
            buffers = [validity, pa.py_buffer(out.astype(f"<i{t.bit_width // 8}", copy=False))]
        return pa.Array.from_buffers(t, n, buffers)
