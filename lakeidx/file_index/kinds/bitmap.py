"""File index ``bitmap``: for every value the rows that have it.

All **big endian**; R = roaring bitmap in the portable form (`lakeidx.codec.roaring`); keys as in
`lakeidx.file_index.kinds.value_keys`.

=====================================================  ==========================================================
version 2 (the default)                                version 1
=====================================================  ==========================================================
u8 2, i32 rows, i32 values, u8 has nulls               u8 1, i32 rows, i32 values, u8 has nulls
with nulls: i32 offset, i32 bytes of the null bitmap   with nulls: i32 offset
i32 blocks                                             per value: key, i32 offset
per block: first key, i32 start among the blocks
i32 bytes of all blocks
blocks: i32 entries, (key, i32 offset, i32 length)*
body: R of the nulls when more than one, R per value   body: the same
=====================================================  ==========================================================

An offset below 0 is the only row of its value: row = -1 - offset (length -1). Other offsets count from the body's first
byte. Keys ascend in version 2; Java's version 1, and its bodies, are in the order of a hash map.

source   org.apache.paimon.fileindex.bitmap.BitmapFileIndex, BitmapFileIndexMeta, BitmapFileIndexMetaV2, release 1.4.2
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.roaring import deserialize, group_positions, read_bitmap, serialize_groups, serialize_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.blocks import find_entry, split_blocks, with_tails
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, FileIndexWriter, Verdict
from lakeidx.file_index.kinds.value_keys import (
    CollectingWriter,
    DistinctKeys,
    Key,
    encode_keys,
    is_cut,
    key_of,
    key_width,
    numbers_from,
    read_key,
)
from lakeidx.options.descriptors import parse_size
from lakeidx.predicate.tree import Compare, In, IsNull, Leaf, Op
from lakeidx.types import BYTES_ROOTS, DataType, Root


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


_DEFAULT_BLOCK_SIZE = "16kb"


class BitmapIndexer:
    """The type ``bitmap``: options `version` (1 or 2) and `index-block-size`."""

    name = "bitmap"
    options = frozenset({"version", "index-block-size"})

    def check(self, t: DataType, options: Mapping[str, str]) -> None:
        """Raise InvalidInputError for DECIMAL, BINARY, BYTES, nested types and bad options."""
        if t.root in (Root.DECIMAL, Root.VARIANT) or t.root in BYTES_ROOTS or t.is_nested:
            raise InvalidInputError(f"bitmap cannot index {t.with_nullable(True)}")
        _settings(options)

    def create_writer(self, t: DataType, options: Mapping[str, str]) -> FileIndexWriter:
        """Make a writer of the version in option `version`."""
        self.check(t, options)
        version, size = _settings(options)
        return CollectingWriter(t, lambda keys: encode_bitmap(keys.distinct(), t, version=version, block_size=size))

    def create_reader(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> FileIndexReader:
        """Make a reader that decodes only the blocks and bitmaps that a test needs."""
        return BitmapIndexReader(t, payload, rows=rows, path=path)


def _settings(options: Mapping[str, str]) -> tuple[int, int]:
    version, block_size = options.get("version", "2"), options.get("index-block-size", _DEFAULT_BLOCK_SIZE)
    if version.strip() not in ("1", "2"):
        raise InvalidInputError(f"version must be 1 or 2, not {version!r}")
    try:
        limit = parse_size(block_size)
    except ValueError as e:
        raise InvalidInputError(f"index-block-size must be {e}, not {block_size!r}") from None
    if not 16 <= limit <= 0x7FFFFFFF:
        raise InvalidInputError(f"index-block-size must be 16 bytes to 2 GiB, not {block_size!r}")
    return int(version), limit


def encode_bitmap(
    distinct: DistinctKeys,
    t: DataType,
    *,
    version: int = 2,
    block_size: int = 16384,
    order: npt.NDArray[np.int64] | None = None,
) -> bytes | None:
    """Encode a bitmap index.

    distinct    the column
    block_size  bytes of a block of entries (version 2)
    order       int64[values]: ranks of the values in the order their bitmaps (version 1: and entries) are to stand, for
                a file like Java's; ascending when left out
    returns     None when a key does not fit a block or the bitmaps take 2 GiB and more (Java fails on such a column)
    """
    count = len(distinct.keys)
    order = np.arange(count) if order is None else order
    nulls = np.flatnonzero(distinct.codes < 0).astype(np.uint32)
    null_bitmap = serialize_rows(nulls)
    null_body = null_bitmap if len(nulls) > 1 else b""
    offsets, lengths, body = _bodies(distinct.codes, order, len(null_body))
    if len(null_body) + len(body) > 0x7FFFFFFF:
        return None
    head = struct.pack(">BiiB", version, len(distinct.codes), count, len(nulls) > 0)
    if len(nulls):
        head += struct.pack(">i", -1 - int(nulls[0]) if len(nulls) == 1 else 0)
    keys = encode_keys(distinct.keys, t)
    if version == 1:
        entries = with_tails(keys, offsets)
        listed = b"".join(entries[i] for i in order) if (np.diff(order) < 0).any() else entries.flat.tobytes()
        return head + listed + null_body + body
    if len(nulls):
        head += struct.pack(">i", len(null_bitmap))
    index = _blocks(keys, with_tails(keys, offsets, lengths), block_size)
    return None if index is None else head + index + null_body + body


def _bodies(
    codes: npt.NDArray[np.int32], order: npt.NDArray[np.int64], base: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], bytes]:
    """Return the offset and length of each value's entry, and the bitmaps of the values with several rows."""
    count = len(order)
    place = np.empty(count + 1, np.int32)  # the extra last one is for nulls
    place[order] = np.arange(count, dtype=np.int32)
    place[count] = -1
    positions, starts = group_positions(place[codes], count)
    sizes = np.diff(starts)
    several = sizes > 1
    grouped = np.zeros(int(several.sum()) + 1, np.int64)
    np.cumsum(sizes[several], out=grouped[1:])
    bitmaps = serialize_groups(positions[np.repeat(several, sizes)], grouped)
    offsets, lengths = np.empty(count, np.int64), np.full(count, -1, np.int64)
    offsets[several] = bitmaps.offsets[:-1] + base
    lengths[several] = bitmaps.lengths
    offsets[~several] = -1 - positions[starts[:-1][~several]].astype(np.int64)
    return offsets[place[:-1]], lengths[place[:-1]], bitmaps.flat.tobytes()


def _blocks(keys: RowBytes, entries: RowBytes, limit: int) -> bytes | None:
    """Return the block directory and blocks of version 2; None when an entry does not fit a block."""
    sizes = entries.lengths
    if len(sizes) and int(sizes.max()) + 4 > limit:
        return None
    bounds = split_blocks(sizes, limit, taken=4)
    firsts = bounds[:-1]
    counts = np.diff(bounds)
    block_starts = entries.offsets[firsts] + 4 * np.arange(len(firsts), dtype=np.int64)
    total = entries.nbytes + 4 * len(firsts)
    if total > 0x7FFFFFFF:
        return None
    parts = [struct.pack(">i", len(firsts))]
    parts += [
        keys[i] + struct.pack(">i", start) for i, start in zip(firsts.tolist(), block_starts.tolist(), strict=True)
    ]
    parts.append(struct.pack(">i", total))
    raw, edges = entries.data.tobytes(), entries.offsets
    for first, n in zip(firsts.tolist(), counts.tolist(), strict=True):
        parts += [struct.pack(">i", n), raw[edges[first] : edges[first + n]]]
    return b"".join(parts)
