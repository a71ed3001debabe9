"""File index ``range-bitmap``: a sorted dictionary of the values, and bit slices of their ranks.

All **big endian** but R = roaring bitmap in the portable form; keys as in `lakeidx.file_index.kinds.value_keys`.

==================  ============================================================================================
piece               bytes
==================  ============================================================================================
head                i32 bytes that follow in the head, u8 1, i32 rows, i32 values, least and greatest key (when
                    there are values), i32 bytes of the dictionary
dictionary          i32 13, u8 1, i32 chunks, i32 bytes of the offsets, i32 bytes of the chunk heads; then
                    per chunk i32 offset of its head; chunk heads; bodies
chunk head          u8 1, first key, i32 its rank, i32 offset of the body, i32 further keys,
                    fixed width: i32 bytes of the body, i32 bytes of a key;
                    strings: i32 bytes of the body's offsets, i32 bytes of its keys
chunk body          the further keys; for strings, an i32 offset of each before them
slices              i32 bytes that follow in the head, u8 1, u8 n, i32 bytes of the first R, i32 8 n,
                    n of (i32 offset, i32 bytes); then R of the rows with a value, n of R
==================  ============================================================================================

A chunk's body takes at most `chunk-size` bytes (for strings: its keys, and its offsets, each). Ranks count from 0.
Slice i holds the rows where bit i of the rank is set; n = max(1, bits of the greatest rank), and 64 when every row is
null.

source   org.apache.paimon.fileindex.rangebitmap.RangeBitmap, BitSliceIndexBitmap, dictionary.chunked.*, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.roaring import deserialize, serialize_rows, serialize_slices
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.blocks import split_blocks
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, FileIndexWriter, Verdict
from lakeidx.file_index.kinds.value_keys import (
    CollectingWriter,
    DistinctKeys,
    Key,
    encode_keys,
    key_of,
    key_width,
    numbers_from,
    read_key,
)
from lakeidx.options.descriptors import parse_size
from lakeidx.predicate.tree import Compare, In, IsNull, Leaf, Op
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_VERSION = 1
_DICTIONARY_HEAD = 13


class RangeBitmapReader:
    """Answers comparisons, IN, NOT IN, IS NULL and IS NOT NULL with rows; nulls pass IS NULL only.

    IS NULL over nulls alone gives every row (Java 1.4.2 gives the first and the last, a bug mended later).
    """

    def __init__(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> None:
        self._type = t
        cursor = Cursor(payload, path)
        length = cursor.i32be()
        version = cursor.u8()
        if version != _VERSION:
            raise cursor.error(f"expected version {_VERSION} of a range bitmap, found {version}", at=4)
        self.rows, self.values = cursor.i32be(), cursor.i32be()
        if not 0 <= self.values <= self.rows or (rows is not None and rows != self.rows):
            raise cursor.error(
                f"a range bitmap of {self.values} values over {self.rows} rows for a file of {rows}", at=5
            )
        ends: tuple[Any, Any] = (read_key(cursor, t), read_key(cursor, t)) if self.values else (0, 0)
        self._least, self._greatest = ends
        size = cursor.i32be()
        if cursor.pos != 4 + length or self._least > self._greatest:
            raise cursor.error("the head of a range bitmap contradicts itself", at=0)
        base = cursor.pos
        self._dictionary = _ChunkedDictionary(cursor.view(size), t, self.values, path=path, base=base)
        base = cursor.pos
        self._slices = _RankSlices(cursor.view(cursor.remaining), self.values, self.rows, path=path, base=base)

    def select(self, leaf: Leaf) -> FileIndexResult:
        """Return the rows, or REMAIN for other tests."""
        if isinstance(leaf, IsNull):
            present = self._slices.present
            return present.copy() if leaf.negated else BitMap(range(self.rows)) - present
        if isinstance(leaf, Compare):
            return BitMap() if leaf.value is None else self._compare(leaf.op, key_of(leaf.value, self._type))
        if isinstance(leaf, In):
            if leaf.negated and None in leaf.values:
                return BitMap()
            equal = [self._equal(key_of(v, self._type)) for v in leaf.values if v is not None]
            found: BitMap = reduce(lambda a, b: a | b, equal, BitMap())
            return self._slices.present - found if leaf.negated else found
        return Verdict.REMAIN

    def _equal(self, key: Key) -> BitMap:
        rank = self._rank(key)
        return self._slices.equal(rank) if rank >= 0 else BitMap()

    def _compare(self, op: Op, key: Key) -> BitMap:
        if op is Op.EQ:
            return self._equal(key)
        if op is Op.NE:
            return self._slices.present - self._equal(key)
        rank = self._rank(key)
        if rank < 0:  # between two values: below the one at -rank - 1
            below = self._slices.below(-rank - 1)
        else:
            below = self._slices.below(rank + 1 if op in (Op.LE, Op.GT) else rank)
        return below if op in (Op.LT, Op.LE) else self._slices.present - below

    def _rank(self, key: Any) -> int:
        """Return the key's rank, or -1 - the number of values below it."""
        if not self.values or key < self._least:
            return -1
        if key > self._greatest:
            return -1 - self.values
        return self._dictionary.find(key)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Head of a chunk: its first key, the rank of that, the number of keys that follow, and the place of its body."""

    first: Any
    rank: int
    further: int
    start: int
    tables: int
    size: int


class _ChunkedDictionary:
    """Sorted keys in chunks; finds the rank of a key by two binary searches."""

    def __init__(self, data: memoryview, t: DataType, count: int, *, path: str | None, base: int) -> None:
        self._type, self._path, self._count = t, path, count
        cursor = self._cursor = Cursor(data, path, base=base)
        length, version, self._chunks = cursor.i32be(), cursor.u8(), cursor.i32be()
        offsets_size, self._heads_size = cursor.i32be(), cursor.i32be()
        consistent = length == _DICTIONARY_HEAD and version == _VERSION and offsets_size == 4 * self._chunks
        if not consistent or not (0 < self._chunks <= count if count else self._chunks == 0):
            raise cursor.error(f"a dictionary of {self._chunks} chunks for {count} values", at=0)
        self._offsets = np.frombuffer(cursor.view(offsets_size), ">i4").tolist()
        self._heads = cursor.pos
        cursor.skip(self._heads_size)
        self._bodies = cursor.pos
        self._base = base

    def find(self, key: Any) -> int:
        """Return the key's rank, or -1 - the number of keys below it."""
        low, high = 0, self._chunks
        while low < high:
            middle = (low + high) // 2
            if self._chunk(middle).first <= key:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return -1
        chunk = self._chunk(low - 1)
        if chunk.first == key:
            return chunk.rank
        next_rank = self._chunk(low).rank if low < self._chunks else self._count
        if chunk.rank + chunk.further + 1 != next_rank:
            raise self._cursor.error(f"a chunk of {chunk.further + 1} keys from rank {chunk.rank} to {next_rank}", at=0)
        return self._find_in(chunk, key)

    def _chunk(self, index: int) -> _Chunk:
        at = self._offsets[index]
        end = self._offsets[index + 1] if index + 1 < self._chunks else self._heads_size
        if not 0 <= at < end <= self._heads_size:
            raise self._cursor.error("heads of a dictionary's chunks out of order", at=self._heads)
        self._cursor.seek(self._heads + at)
        cursor = Cursor(self._cursor.view(end - at), self._path, base=self._base + self._heads + at)
        version, first = cursor.u8(), read_key(cursor, self._type)
        rank, start, further, a, b = (cursor.i32be() for _ in range(5))
        width = key_width(self._type)
        tables, size = (0, a) if width is not None else (a, b)
        fits = (a, b) == (width * further, width) if width is not None else a == 4 * further
        if version != _VERSION or cursor.remaining or not fits or min(rank, start, further, size) < 0:
            raise cursor.error("the head of a dictionary's chunk contradicts itself", at=0)
        return _Chunk(first, rank, further, start, tables, size)

    def _find_in(self, chunk: _Chunk, key: Any) -> int:
        self._cursor.seek(min(self._bodies + chunk.start, len(self._cursor)))
        at = self._cursor.pos
        body = Cursor(self._cursor.view(chunk.tables + chunk.size), self._path, base=self._base + at)
        keys: Any
        if key_width(self._type) is not None:
            keys = numbers_from(body.view(chunk.size), self._type, body)
        else:
            body.skip(chunk.tables)
            keys = [read_key(body, self._type) for _ in range(chunk.further)]
            if body.remaining:
                raise body.error("a chunk's keys do not fill its body")
        ordered = keys[0] > chunk.first if len(keys) else True
        ordered = ordered and (
            # Not by their differences: those of far apart numbers overflow.
            bool((keys[1:] > keys[:-1]).all())
            if isinstance(keys, np.ndarray)
            else all(x < y for x, y in pairwise(keys))
        )
        if not ordered:
            raise body.error("keys of a dictionary's chunk out of order", at=0)
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        rank = chunk.rank + 1 + low
        return rank if low < len(keys) and keys[low] == key else -1 - rank


class _RankSlices:
    """Bit slices of the rows' ranks, decoded one by one when needed."""

    def __init__(self, data: memoryview, count: int, rows: int, *, path: str | None, base: int) -> None:
        self._path, self._rows, self._count = path, rows, count
        cursor = self._cursor = Cursor(data, path, base=base)
        length, version, bits, size, table = cursor.i32be(), cursor.u8(), cursor.u8(), cursor.i32be(), cursor.i32be()
        wanted = max((count - 1).bit_length(), 1) if count else 64
        if version != _VERSION or bits != wanted or table != 8 * bits or length != 10 + table:
            raise cursor.error(f"{bits} bit slices for {count} values", at=0)
        spans = np.frombuffer(cursor.view(table), ">i4").reshape(-1, 2).tolist()
        self._body, self._base = cursor.pos, base
        cursor.skip(size)
        self._spans = [(self._body, size)]
        for offset, slice_size in spans:
            if offset != cursor.pos - self._body - size:
                raise cursor.error("bit slices out of order")
            self._spans.append((cursor.pos, slice_size))
            cursor.skip(slice_size)
        if cursor.remaining:
            raise cursor.error(f"{cursor.remaining} bytes after the last bit slice")
        self._decoded: dict[int, BitMap] = {}

    @cached_property
    def present(self) -> BitMap:
        """Rows with a value."""
        return self._bitmap(0)

    def equal(self, rank: int) -> BitMap:
        """Return the rows of one rank."""
        found = self.present
        for i in range(len(self._spans) - 1):
            found = found & self._slice(i) if rank >> i & 1 else found - self._slice(i)
        return found

    def below(self, rank: int) -> BitMap:
        """Return the rows of lower ranks."""
        if rank <= 0:
            return BitMap()
        if rank >= self._count:
            return self.present
        below, equal = BitMap(), self.present
        for i in range(len(self._spans) - 2, -1, -1):
            if rank >> i & 1:
                below |= equal - self._slice(i)
                equal = equal & self._slice(i)
            else:
                equal = equal - self._slice(i)
        return below

    def _slice(self, i: int) -> BitMap:
        if i not in self._decoded:
            rows = self._bitmap(i + 1)
            # Counting is some fifty times faster here than pyroaring's subset test.
            if rows.intersection_cardinality(self.present) != len(rows):
                raise self._cursor.error(f"bit slice {i} holds rows without a value", at=self._spans[i + 1][0])
            self._decoded[i] = rows
        return self._decoded[i]

    def _bitmap(self, index: int) -> BitMap:
        at, size = self._spans[index]
        self._cursor.seek(at)
        return deserialize(self._cursor.view(size), path=self._path, base=self._base + at, rows=self._rows)


#: Positions in a payload are 31 bits wide.
_MOST_BYTES = 0x7FFFFFFF
_SMALL = frozenset({Root.BOOLEAN, Root.TINYINT, Root.SMALLINT})


class RangeBitmapIndexer:
    """The type ``range-bitmap``: option `chunk-size`."""

    name = "range-bitmap"
    options = frozenset({"chunk-size"})

    def check(self, t: DataType, options: Mapping[str, str]) -> None:
        """Raise InvalidInputError for BINARY, BYTES, nested types, too many digits and a bad option."""
        too_fine = (t.root is Root.DECIMAL and t.precision > 18) or (t.root in TIMESTAMP_ROOTS and t.precision > 6)
        if t.root in BYTES_ROOTS or t.root is Root.VARIANT or t.is_nested or too_fine:
            raise InvalidInputError(f"range-bitmap cannot index {t.with_nullable(True)}")
        _chunk_size(t, options)

    def create_writer(self, t: DataType, options: Mapping[str, str]) -> FileIndexWriter:
        """Make a writer for one file."""
        self.check(t, options)
        size = _chunk_size(t, options)
        return CollectingWriter(t, lambda keys: _encode_range_bitmap(keys.distinct(), t, chunk_size=size))

    def create_reader(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> FileIndexReader:
        """Make a reader that decodes only the chunks and slices that a test needs."""
        return RangeBitmapReader(t, payload, rows=rows, path=path)


def _chunk_size(t: DataType, options: Mapping[str, str]) -> int:
    text = options.get("chunk-size", "0b" if t.root in _SMALL else "16kb")
    try:
        size = parse_size(text)
    except ValueError as e:
        raise InvalidInputError(f"chunk-size must be {e}, not {text!r}") from None
    if size > 0x7FFFFFFF:
        raise InvalidInputError(f"chunk-size must be below 2 GiB, not {text!r}")
    return size


def _encode_range_bitmap(distinct: DistinctKeys, t: DataType, *, chunk_size: int = 16384) -> bytes | None:
    """Encode a range-bitmap index; None when it would need 2 GiB or more."""
    keys = encode_keys(distinct.keys, t)
    count = len(keys)
    dictionary = _encode_dictionary(keys, t, chunk_size)
    if dictionary is None:
        return None
    slices = _encode_slices(distinct.codes, count)
    if len(dictionary) + len(slices) > _MOST_BYTES:
        return None
    ends = keys[0] + keys[count - 1] if count else b""
    head = struct.pack(">Bii", 1, len(distinct.codes), count) + ends + struct.pack(">i", len(dictionary))
    return struct.pack(">i", len(head)) + head + dictionary + slices


def _encode_dictionary(keys: RowBytes, t: DataType, chunk_size: int) -> bytes | None:
    """Encode sorted keys as chunks; None when they take 2 GiB or more, which positions of 31 bits cannot reach."""
    width = key_width(t)
    most = -1 if width is not None else chunk_size // 4
    bounds = split_blocks(keys.lengths, chunk_size, free_first=True, most=most) if len(keys) else np.zeros(1, np.int64)
    raw, edges = keys.flat.tobytes(), (keys.offsets - keys.offsets[0]).tolist()
    places, heads, bodies = [], [], []
    head_at = body_at = 0
    for first, end in pairwise(bounds.tolist()):
        body, table = raw[edges[first + 1] : edges[end]], b""
        sizes = (len(body), width)
        if width is None:
            table = (keys.offsets[first + 1 : end] - keys.offsets[first + 1]).astype(">i4").tobytes()
            sizes = (len(table), len(body))
        head = b"\x01" + raw[edges[first] : edges[first + 1]]
        heads.append(head + struct.pack(">5i", first, body_at, end - first - 1, *sizes))
        bodies += [table, body]
        places.append(head_at)
        head_at += len(heads[-1])
        body_at += len(table) + len(body)
        if head_at + body_at > _MOST_BYTES:
            return None
    offsets = np.array(places, ">i4").tobytes()
    head = struct.pack(">iBiii", 13, 1, len(places), len(offsets), head_at)
    return b"".join((head, offsets, *heads, *bodies))


def _encode_slices(codes: npt.NDArray[np.int32], count: int) -> bytes:
    chosen = codes >= 0
    rows = np.flatnonzero(chosen).astype(np.uint32)
    present = serialize_rows(rows)
    bits = max((count - 1).bit_length(), 1) if count else 64
    slices = serialize_slices(codes.astype(np.int64), bits, None if len(rows) == len(codes) else chosen)
    table, offset = [], 0
    for bitmap in slices:
        table.append(struct.pack(">ii", offset, len(bitmap)))
        offset += len(bitmap)
    head = struct.pack(">BBii", 1, bits, len(present), 8 * bits) + b"".join(table)
    return struct.pack(">i", len(head)) + head + present + b"".join(slices)
