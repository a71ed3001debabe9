"""Reading the payloads of `lakeidx.file_index.kinds.bitmap`: the directory, then only the needed blocks and bitmaps."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.roaring import deserialize, read_bitmap
from lakeidx.file_index.kinds.blocks import find_entry
from lakeidx.file_index.kinds.types import FileIndexResult, Verdict
from lakeidx.file_index.kinds.value_keys import Key, is_cut, key_of, key_width, numbers_from, read_key
from lakeidx.predicate.tree import Compare, In, IsNull, Leaf, Op
from lakeidx.types import DataType


@dataclass(frozen=True, slots=True)
class _Entry:
    """Offset of a bitmap (below 0: the row itself), and its bytes if the payload has them."""

    offset: int
    length: int | None


class BitmapIndexReader:
    """Answers =, <>, IN, NOT IN, IS NULL and IS NOT NULL with rows.

    <> and NOT IN keep the rows that are null, as Java's do; a null literal stands for the null rows.
    """

    def __init__(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> None:
        self._type = t
        self._cursor = cursor = Cursor(payload, path)
        self._payload = payload
        version = cursor.u8()
        if version not in (1, 2):
            raise cursor.error(f"expected version 1 or 2 of a bitmap index, found {version}", at=0)
        self.rows, self.values, flag = cursor.i32be(), cursor.i32be(), cursor.u8()
        if flag > 1 or not 0 <= self.values <= self.rows - flag:
            raise cursor.error(f"{self.values} values in {self.rows} rows, null flag {flag}", at=1)
        if rows is not None and rows != self.rows:
            raise cursor.error(f"a bitmap index over {self.rows} rows for a file of {rows}", at=1)
        self._null = None
        if flag:
            offset = cursor.i32be()
            self._null = _Entry(offset, None if version == 1 else cursor.i32be())
        self._directory: _Entries | _Blocks = (_Entries if version == 1 else _Blocks)(cursor, t, self.values)
        self._body = cursor.pos

    def select(self, leaf: Leaf) -> FileIndexResult:
        """Return the rows, or REMAIN for other tests."""
        if isinstance(leaf, Compare) and leaf.op in (Op.EQ, Op.NE):
            return self._rows_of((leaf.value,), negated=leaf.op is Op.NE)
        if isinstance(leaf, In):
            return self._rows_of(leaf.values, negated=leaf.negated)
        if isinstance(leaf, IsNull):
            return self._rows_of((None,), negated=leaf.negated)
        return Verdict.REMAIN

    def _rows_of(self, values: tuple[Any, ...], *, negated: bool) -> FileIndexResult:
        if negated and is_cut(self._type) and any(v is not None for v in values):
            return Verdict.REMAIN
        found: BitMap = reduce(lambda a, b: a | b, map(self._bitmap, values), BitMap())
        return found.flip(0, self.rows) if negated else found

    def _bitmap(self, value: Any) -> BitMap:
        entry = self._null if value is None else self._directory.find(key_of(value, self._type))
        if entry is None:
            return BitMap()
        if entry.offset < 0:
            row = -1 - entry.offset
            if row >= self.rows:
                raise self._cursor.error(f"row {row} of a bitmap index over {self.rows} rows")
            return BitMap([row])
        self._cursor.seek(min(self._body + entry.offset, len(self._payload)))
        if entry.length is None:
            return read_bitmap(self._cursor, rows=self.rows)
        start = self._cursor.pos
        return deserialize(self._cursor.view(entry.length), path=self._cursor.path, base=start, rows=self.rows)


class _Entries:
    """Version 1: one list of entries in no order."""

    def __init__(self, cursor: Cursor, t: DataType, count: int) -> None:
        self._cursor, self._count, self._start = cursor, count, cursor.pos
        width = key_width(t)
        self._keys: Any = None
        if width is not None:
            packed = np.frombuffer(cursor.view(count * (width + 4)), np.uint8).reshape(count, width + 4)
            self._keys = numbers_from(memoryview(packed[:, :width].tobytes()), t, cursor)
            self._offsets = packed[:, width:].copy().view(">i4").reshape(-1)
            if len(np.unique(self._keys)) != count:
                raise cursor.error("duplicate value in a bitmap index", at=self._start)
            return
        self._data = cursor.view(cursor.remaining)
        _, end = find_entry(self._data, 0, count, 4, None)
        if end < 0:
            raise cursor.error(f"{count} entries pass the end of a bitmap index", at=self._start)
        cursor.seek(self._start + end)

    def find(self, key: Key) -> _Entry | None:
        if isinstance(key, bytes):
            at, _ = find_entry(self._data, 0, self._count, 4, key)
            return None if at < 0 else _Entry(struct.unpack_from(">i", self._data, at)[0], None)
        hits = np.flatnonzero(self._keys == key)
        return _Entry(int(self._offsets[hits[0]]), None) if len(hits) else None


class _Blocks:
    """Version 2: a directory of blocks of sorted entries."""

    def __init__(self, cursor: Cursor, t: DataType, values: int) -> None:
        self._cursor, self._type = cursor, t
        at = cursor.pos
        count = cursor.i32be()
        if not (0 < count <= values if values else count == 0):
            raise cursor.error(f"{count} blocks for {values} values", at=at)
        self._firsts, tails = _entries(cursor, t, count, 1)
        total = cursor.i32be()
        self._starts = [start for (start,) in tails] + [total]
        self._base = cursor.pos
        if not _ascends(self._firsts) or not _ascends(self._starts) or self._starts[0] != 0:
            raise cursor.error("blocks of a bitmap index out of order", at=at)
        cursor.skip(total)

    def find(self, key: Key) -> _Entry | None:
        block = bisect_right(self._firsts, key) - 1
        if block < 0:
            return None
        start, end = self._starts[block], self._starts[block + 1]
        self._cursor.seek(self._base + start)
        cursor = Cursor(self._cursor.view(end - start), self._cursor.path, base=self._base + start)
        count = cursor.i32be()
        keys, tails = _entries(cursor, self._type, count, 2)
        if cursor.remaining or not keys or keys[0] != self._firsts[block]:
            raise cursor.error("a block of a bitmap index does not match its directory", at=0)
        if not _ascends(keys):
            raise cursor.error("values of a bitmap index out of order", at=0)
        place = bisect_right(keys, key) - 1
        if keys[place] != key:
            return None
        offset, length = tails[place]
        if offset >= 0 and length < 0:
            raise cursor.error(f"a bitmap of {length} bytes", at=0)
        return _Entry(offset, length)


def _entries(cursor: Cursor, t: DataType, count: int, numbers: int) -> tuple[list[Any], list[list[int]]]:
    """Read `count` keys, each followed by some i32."""
    width = key_width(t)
    if count < 0:
        raise cursor.error(f"{count} entries in a bitmap index")
    if width is not None:
        packed = np.frombuffer(cursor.view(count * (width + 4 * numbers)), np.uint8).reshape(count, width + 4 * numbers)
        keys = numbers_from(memoryview(packed[:, :width].tobytes()), t, cursor).tolist()
        return keys, packed[:, width:].copy().view(">i4").tolist()
    keys, tails = [], []
    for _ in range(count):
        keys.append(read_key(cursor, t))
        tails.append([cursor.i32be() for _ in range(numbers)])
    return keys, tails


def _ascends(values: list[Any]) -> bool:
    return all(a < b for a, b in pairwise(values))
