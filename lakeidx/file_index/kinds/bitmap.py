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
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.roaring import group_positions, serialize_groups, serialize_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.bitmap_read import BitmapIndexReader
from lakeidx.file_index.kinds.blocks import split_blocks, with_tails
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexWriter
from lakeidx.file_index.kinds.value_keys import DistinctKeys, KeyCollector, encode_keys
from lakeidx.options.descriptors import parse_size
from lakeidx.types import BYTES_ROOTS, DataType, Root

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
        return _BitmapIndexWriter(t, *_settings(options))

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


class _BitmapIndexWriter:
    """Gathers the column, then writes it at once."""

    def __init__(self, t: DataType, version: int, block_size: int) -> None:
        self._type, self._version, self._block_size = t, version, block_size
        self._keys = KeyCollector(t)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows."""
        self._keys.add(column)

    def finish(self) -> bytes | None:
        """Return the payload; None when a key does not fit a block or the bitmaps need 2 GiB."""
        return encode_bitmap(self._keys.distinct(), self._type, version=self._version, block_size=self._block_size)


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
