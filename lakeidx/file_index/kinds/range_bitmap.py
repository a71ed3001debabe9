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

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.jit import frozen, kernel
from lakeidx.codec.roaring import serialize_rows, serialize_slices
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.blocks import split_blocks
from lakeidx.file_index.kinds.range_bitmap_read import RangeBitmapReader
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexWriter
from lakeidx.file_index.kinds.value_keys import DistinctKeys, KeyCollector, encode_keys, key_width
from lakeidx.options.descriptors import parse_size
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root

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
        return _RangeBitmapWriter(t, _chunk_size(t, options))

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


class _RangeBitmapWriter:
    """Gathers the column, then writes it at once."""

    def __init__(self, t: DataType, chunk_size: int) -> None:
        self._type, self._chunk_size = t, chunk_size
        self._keys = KeyCollector(t)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows."""
        self._keys.add(column)

    def finish(self) -> bytes | None:
        """Return the payload; None when it would need 2 GiB."""
        return _encode_range_bitmap(self._keys.distinct(), self._type, chunk_size=self._chunk_size)


def _encode_range_bitmap(distinct: DistinctKeys, t: DataType, *, chunk_size: int = 16384) -> bytes | None:
    """Encode a range-bitmap index; None when it would need 2 GiB or more."""
    keys = encode_keys(distinct.keys, t)
    count = len(keys)
    dictionary = _encode_dictionary(keys, t, chunk_size)
    slices = _encode_slices(distinct.codes, count)
    if len(dictionary) + len(slices) > 0x7FFFFFFF:
        return None
    ends = keys[0] + keys[count - 1] if count else b""
    head = struct.pack(">Bii", 1, len(distinct.codes), count) + ends + struct.pack(">i", len(dictionary))
    return struct.pack(">i", len(head)) + head + dictionary + slices


def _encode_dictionary(keys: RowBytes, t: DataType, chunk_size: int) -> bytes:
    """Encode sorted keys as chunks."""
    width = key_width(t)
    lengths = keys.lengths
    most = -1 if width is not None else chunk_size // 4
    bounds = split_blocks(lengths, chunk_size, free_first=True, most=most) if len(keys) else np.zeros(1, np.int64)
    firsts = bounds[:-1]
    further = np.diff(bounds) - 1
    sizes = keys.offsets[bounds[1:]] - keys.offsets[firsts + 1]
    tables = np.zeros(len(firsts), np.int64) if width is not None else 4 * further
    body_offsets = np.zeros(len(firsts) + 1, np.int64)
    np.cumsum(sizes + tables, out=body_offsets[1:])
    head_sizes = 1 + lengths[firsts] + 20
    head_offsets = np.zeros(len(firsts) + 1, np.int64)
    np.cumsum(head_sizes, out=head_offsets[1:])
    fields = np.empty((len(firsts), 5), ">i4")
    last = (sizes, np.full(len(firsts), width or 0)) if width is not None else (tables, sizes)
    for column, values in enumerate((firsts, body_offsets[:-1], further, *last)):
        fields[:, column] = values
    heads = np.empty(int(head_offsets[-1]), np.uint8)
    bodies = np.empty(int(body_offsets[-1]), np.uint8)
    _chunks(
        frozen(keys.data), frozen(keys.offsets), bounds, frozen(fields.view(np.uint8)), width is None, heads, bodies
    )
    offsets = head_offsets[:-1].astype(">i4").tobytes()
    head = struct.pack(">iBiii", 13, 1, len(firsts), len(offsets), len(heads))
    return head + offsets + heads.tobytes() + bodies.tobytes()


@kernel
def _chunks(data, offsets, bounds, fields, variable, heads, bodies):  # type: ignore[no-untyped-def]
    head, body = 0, 0
    for c in range(len(bounds) - 1):
        first, end = bounds[c], bounds[c + 1]
        heads[head] = 1
        head += 1
        for b in range(offsets[first], offsets[first + 1]):
            heads[head] = data[b]
            head += 1
        for b in range(20):
            heads[head] = fields[c, b]
            head += 1
        if variable:
            for k in range(first + 1, end):
                at = offsets[k] - offsets[first + 1]
                for b in range(4):
                    bodies[body] = (at >> (24 - 8 * b)) & 0xFF
                    body += 1
        for b in range(offsets[first + 1], offsets[end]):
            bodies[body] = data[b]
            body += 1


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
