"""Encoding of Paimon's compacted rows (keys and values of lookup files): of whole columns, and of a row that has no column form.

Byte order: little endian; big endian inside DECIMAL p > 18.

====================  ============================================================================================
part                  content
====================  ============================================================================================
header                ``(arity + 15) // 8`` bytes: byte 0 row kind, bit ``8 + i`` null of field i (LSB first)
BOOLEAN .. DOUBLE     the value at its own width; DATE and TIME as i32
strings, binary       varint length, bytes
DECIMAL               p <= 18: i64 unscaled; else varint length, minimal big-endian two's complement
TIMESTAMP             i64 millis; p > 3 also varint nanos of the milli
ARRAY, MAP, MULTISET  varint length, BinaryArray or BinaryMap bytes (``binary_row``)
ROW                   varint length, compacted row
VARIANT               varint length, then value and metadata, each with its own varint length
null                  nothing
====================  ============================================================================================

source   org.apache.paimon.data.serializer.RowCompactedSerializer, VariantSerializer; release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import Column, Mask, frozen
from lakeidx.codec.columns import BytesColumn, FixedColumn, split_columns
from lakeidx.codec.kernels import put_fixed, put_spans, put_varints
from lakeidx.codec.rows import binary_row, binary_row_write
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import unscaled_of
from lakeidx.codec.varint import encode_varint
from lakeidx.errors import InvalidInputError
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Root

_I64 = struct.Struct("<q")


def compacted_header_size(arity: int) -> int:
    """Return the bytes before the first field: kind byte and null bits."""
    return (arity + 15) // 8


def encode_compacted(values: Sequence[Any], types: Sequence[DataType], kind: int = 0) -> bytes:
    """Encode one row of internal values as compacted bytes.

    kind     0 +I, 1 -U, 2 +U, 3 -D; keys always 0
    errors   InvalidInputError when a value is not of its type
    """
    if len(values) != len(types):
        raise InvalidInputError(f"{len(values)} values for {len(types)} columns")
    header = bytearray(compacted_header_size(len(types)))
    header[0] = kind
    parts: list[bytes | bytearray] = [header]
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        if value is None:
            header[(i + 8) // 8] |= 1 << (i % 8)
        else:
            try:
                parts.append(_encode_field(value, t))
            except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as e:
                raise InvalidInputError(f"{value!r} is not a value of {t}: {e}") from e
    return b"".join(parts)


def _encode_field(value: Any, t: DataType) -> bytes:
    fixed = binary_row.FIXED.get(t.root)
    if fixed is not None:
        return fixed.pack(value)
    if t.root in TIMESTAMP_ROOTS:
        millis, nanos = value
        if t.is_compact:
            return _I64.pack(millis)
        if not 0 <= nanos <= binary_row.MAX_NANOS:
            raise ValueError("nanos of a milli are 0 to 999999")
        return _I64.pack(millis) + encode_varint(nanos)
    if t.root is Root.DECIMAL and t.is_compact:
        return _I64.pack(unscaled_of(value, t))
    if t.root is Root.DECIMAL:
        piece = binary_row_write.minimal_twos_complement(unscaled_of(value, t))
    else:
        piece = _encode_compacted_piece(value, t)
    return encode_varint(len(piece)) + piece


def _encode_compacted_piece(value: Any, t: DataType) -> bytes:
    """Encode the bytes of a string, binary, VARIANT or nested value inside a compacted row, without the length before them."""
    if t.root is Root.ROW:
        return encode_compacted(value, [f.type for f in t.fields])
    if t.root is Root.VARIANT:
        body, metadata = value
        found: bytes = encode_varint(len(body)) + body + encode_varint(len(metadata)) + metadata
        return found
    return binary_row_write.encode_piece(value, t)


def encode_compacted_rows(
    columns: Sequence[Column], types: Sequence[DataType], num_rows: int | None = None, *, room: int = 0
) -> RowBytes:
    """Encode each row of the columns as compacted bytes, kind 0.

    columns   any chunking and slicing; of ``to_arrow(type)`` or what casts to it
    num_rows  only needed when there are no columns
    room      bytes behind each row, 0, for what the caller has to say of it
    errors    InvalidInputError when a column is not of its type
    cost      one pass per column; VARIANT and nested values one by one
    """
    parts, n = split_columns(columns, types, num_rows, _encode_compacted_piece)
    all_valid = frozen(np.ones(n, np.bool_))
    header = compacted_header_size(len(types))
    sizes = np.full(n, header + room, np.int64)
    spans = {}
    for i, part in enumerate(parts):
        valid = all_valid if part.valid is None else frozen(part.valid)
        if isinstance(part, FixedColumn):
            sizes += part.width if part.valid is None else part.width * valid
        elif isinstance(part, BytesColumn):
            sizes += np.where(valid, part.lengths + varint_sizes(part.lengths), 0)
        elif types[i].root is Root.DECIMAL:
            # At most 16 bytes: their length takes one.
            sizes += np.where(valid, part.low.astype(np.int64) + 1, 0)
            spans[i] = _decimal_spans(part.low, part.tails, valid)
        else:
            sizes += np.where(valid, 8 + varint_sizes(part.low), 0)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.zeros(int(offsets[-1]), np.uint8)
    for i, part in enumerate(parts):
        if part.valid is not None:
            out[offsets[:-1] + (i + 8) // 8] |= (~part.valid).astype(np.uint8) << np.uint8(i % 8)
    cursor = offsets[:-1] + header
    for i, part in enumerate(parts):
        valid = all_valid if part.valid is None else frozen(part.valid)
        if isinstance(part, FixedColumn):
            put_fixed(out, cursor, frozen(part.words.astype(np.uint64, copy=False)), valid, part.width)
        elif isinstance(part, BytesColumn):
            put_spans(out, cursor, part.data, part.starts, part.lengths)
        elif i in spans:
            put_spans(out, cursor, *spans[i])
        else:
            put_fixed(out, cursor, part.tails[0], valid, 8)
            put_varints(out, cursor, frozen(part.low.astype(np.int64)), valid)
    return RowBytes(out, offsets)


def varint_sizes(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return int64[n]: bytes that each number (0 to 2**31 - 1) takes as a varint."""
    sizes = np.ones(len(values), np.int64)
    for limit in (1 << 7, 1 << 14, 1 << 21, 1 << 28):
        sizes += values >= limit
    return sizes


def _decimal_spans(low: Any, tails: Any, valid: Mask) -> tuple[Any, Any, Any]:
    """Return the tail words of wide decimals as (data, starts, lengths)."""
    data = np.stack(tails, axis=1).view(np.uint8).reshape(-1)
    lengths = np.where(valid, low.astype(np.int64), -1)
    return frozen(data), frozen(np.arange(len(low)) * 16), frozen(lengths)
