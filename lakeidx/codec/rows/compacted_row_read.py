"""Decoding of compacted rows, the counterpart of `lakeidx.codec.rows.compacted_row`, which has the layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import Mask, frozen
from lakeidx.codec.columns import fixed_width, is_fixed
from lakeidx.codec.kernels import gather, join_decimals, take_fixed, take_spans, take_varints
from lakeidx.codec.rows import binary_row, binary_row_read
from lakeidx.codec.rows.binary_row import MAX_NANOS
from lakeidx.codec.rows.compacted_row import compacted_header_size
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import internal_to_arrow
from lakeidx.codec.varint import decode_varint
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, to_arrow

_I64 = struct.Struct("<q")


def decode_compacted(data: bytes, types: Sequence[DataType]) -> list[Any]:
    """Decode the internal values of a compacted row; the kind byte is ignored.

    errors   CorruptFileError when the bytes are not exactly such a row
    """
    header = compacted_header_size(len(types))
    if len(data) < header:
        raise CorruptFileError(
            f"a row of {len(types)} columns has at least {header} bytes, found {len(data)}", offset=0
        )
    values: list[Any] = []
    at = header
    for i, t in enumerate(types):
        if data[(i + 8) // 8] >> (i % 8) & 1:
            values.append(None)
        else:
            value, at = _decode_field(data, at, t)
            values.append(value)
    if at != len(data):
        raise CorruptFileError(f"{len(data) - at} bytes follow the last field", offset=at)
    return values


def _decode_field(data: bytes, at: int, t: DataType) -> tuple[Any, int]:
    fixed = binary_row.FIXED.get(t.root)
    if fixed is not None:
        return fixed.unpack(_take(data, at, fixed.size))[0], at + fixed.size
    if t.root in TIMESTAMP_ROOTS:
        millis = _I64.unpack(_take(data, at, 8))[0]
        if t.is_compact:
            return (millis, 0), at + 8
        nanos, end = decode_varint(data, at + 8, limit=binary_row.MAX_NANOS)
        return (millis, nanos), end
    if t.root is Root.DECIMAL and t.is_compact:
        return binary_row_read.checked_decimal(_I64.unpack(_take(data, at, 8))[0], t, at), at + 8
    length, start = decode_varint(data, at)
    return _decode_compacted_piece(_take(data, start, length), t, start), start + length


def _decode_compacted_piece(piece: bytes, t: DataType, at: int) -> Any:
    """Decode what `_encode_compacted_piece` made, DECIMAL p > 18 included (`at` is for messages)."""
    if t.root is Root.ROW:
        return tuple(decode_compacted(piece, [f.type for f in t.fields]))
    if t.root is Root.VARIANT:
        length, start = decode_varint(piece, 0)
        body = _take(piece, start, length)
        length, start = decode_varint(piece, start + length)
        return body, _take(piece, start, length)
    return binary_row_read.decode_piece(piece, t, at)


def _take(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise CorruptFileError(f"expected {length} bytes, found {len(data) - at}", offset=at)
    return bytes(data[at : at + length])


def decode_compacted_rows(rows: RowBytes, types: Sequence[DataType], names: Sequence[str]) -> pa.Table:
    """Decode the columns of n compacted rows.

    returns  table of ``to_arrow(type)`` columns called `names`; TIMESTAMP digits below Arrow's unit are cut off
    errors   CorruptFileError when a row is not such a row (offset = where it begins in ``rows.data``)
    cost     one pass per column; VARIANT and nested values one by one
    """
    if len(names) != len(types):
        raise InvalidInputError(f"{len(names)} names for {len(types)} types")
    reader = _Reader(rows, len(types))
    columns = [reader.column(i, t) for i, t in enumerate(types)]
    reader.expect_end()
    if not types:
        return pa.table({"": pa.nulls(len(rows))}).select([])
    return pa.Table.from_arrays(
        columns, schema=pa.schema([(x, to_arrow(t)) for x, t in zip(names, types, strict=True)])
    )


class _Reader:
    """Walks all rows side by side, one field at a time."""

    def __init__(self, rows: RowBytes, arity: int) -> None:
        self._data = frozen(rows.data)
        self._rows = rows.offsets[:-1]
        self._ends = frozen(rows.offsets[1:])
        if len(rows) and (rows.offsets[0] < 0 or rows.offsets[-1] > len(rows.data) or np.any(rows.lengths < 0)):
            raise CorruptFileError("row offsets lie outside the bytes", offset=0)
        header = compacted_header_size(arity)
        short = rows.lengths < header
        if short.any():
            self._fail(int(short.argmax()), f"is shorter than the {header} bytes of its header")
        self._cursor = self._rows + header

    def _fail(self, row: int, what: str) -> None:
        if row >= 0:
            raise CorruptFileError(f"compacted row {row} {what}", offset=int(self._rows[row]))

    def expect_end(self) -> None:
        over = self._cursor != self._ends
        if over.any():
            self._fail(int(over.argmax()), "has bytes after its last field")

    def column(self, i: int, t: DataType) -> pa.Array:
        valid = frozen(self._data[self._rows + (i + 8) // 8] >> np.uint8(i % 8) & np.uint8(1) == 0)
        n = len(valid)
        if is_fixed(t):
            return self._fixed(t, valid)
        if t.root in TIMESTAMP_ROOTS:
            return self._timestamps(t, valid)
        lengths = np.empty(n, np.int64)
        starts = np.empty(n, np.int64)
        self._fail(take_varints(self._data, self._cursor, self._ends, valid, lengths), "has a bad length")
        lengths = frozen(lengths)
        self._fail(take_spans(self._cursor, self._ends, valid, lengths, starts), "ends inside a value")
        starts = frozen(starts)
        if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
            return self._bytes(t, valid, starts, lengths)
        if t.root is Root.DECIMAL:
            words = np.empty((n, 2), np.uint64)
            marked = frozen(np.where(valid, lengths, -1))
            self._fail(join_decimals(self._data, starts, marked, words), "has a decimal of no or too many bytes")
            return self._decimals(t, valid, words)
        values = [
            _decode_compacted_piece(self._data[a : a + k].tobytes(), t, a) if ok else None
            for a, k, ok in zip(starts.tolist(), lengths.tolist(), valid.tolist(), strict=True)
        ]
        try:
            return internal_to_arrow(values, t)
        except InvalidInputError as e:
            raise CorruptFileError(f"column {i} holds values that are not of {t}: {e}", offset=0) from e

    def _take(self, valid: Mask, width: int) -> npt.NDArray[np.uint64]:
        words = np.empty(len(valid), np.uint64)
        self._fail(take_fixed(self._data, self._cursor, self._ends, valid, width, words), "ends inside a value")
        return words

    def _fixed(self, t: DataType, valid: Mask) -> pa.Array:
        words = self._take(valid, fixed_width(t))
        if t.root is Root.DECIMAL:
            high = (words.view(np.int64) >> 63).view(np.uint64)
            return self._decimals(t, valid, np.stack((words, high), axis=1))
        if t.root is Root.BOOLEAN:
            return pa.array(words != 0, mask=~valid)
        return _from_values(words.astype(f"<u{fixed_width(t)}"), t, valid)

    def _timestamps(self, t: DataType, valid: Mask) -> pa.Array:
        millis = self._take(valid, 8).view(np.int64)
        nanos = np.empty(len(valid), np.int64)
        self._fail(take_varints(self._data, self._cursor, self._ends, valid, nanos), "has bad nanos of a milli")
        per_milli = 1_000 if t.precision <= 6 else 1_000_000
        bound = (1 << 63) // per_milli - 1
        bad = (nanos > MAX_NANOS) | (millis > bound) | (millis < -bound)
        if bad.any():
            self._fail(int(bad.argmax()), f"has an instant that is not of {t}")
        return _from_values(millis * per_milli + nanos // (1_000_000 // per_milli), t, valid)

    def _decimals(self, t: DataType, valid: Mask, words: npt.NDArray[np.uint64]) -> pa.Array:
        array = _from_values(words, t, valid)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise CorruptFileError(f"a compacted row has a decimal that is not of {t}: {e}", offset=0) from e
        return array

    def _bytes(self, t: DataType, valid: Mask, starts: Any, lengths: Any) -> pa.Array:
        offsets = np.zeros(len(valid) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        gather(out, frozen(offsets[:-1]), self._data, starts, lengths)
        if len(out) > np.iinfo(np.int32).max:
            raise InvalidInputError(f"{len(out)} bytes in one column are more than Arrow strings hold; use fewer rows")
        buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        array = pa.Array.from_buffers(to_arrow(t), len(valid), buffers)
        if t.root in STRING_ROOTS:
            try:
                array.validate(full=True)
            except pa.ArrowInvalid as e:
                raise CorruptFileError(f"a compacted row has text that is not UTF-8: {e}", offset=0) from e
        return array


def _bitmap(valid: Mask) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _from_values(values: npt.NDArray[Any], t: DataType, valid: Mask) -> pa.Array:
    return pa.Array.from_buffers(to_arrow(t), len(valid), [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])
