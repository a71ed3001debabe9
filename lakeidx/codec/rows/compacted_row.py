"""Paimon's compacted rows (keys and values of lookup files), one at a time: the plain twin of ``compacted_row_vec``.

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

from lakeidx.codec.rows import binary_row
from lakeidx.codec.values import unscaled_of
from lakeidx.codec.varint import decode_varint, encode_varint
from lakeidx.errors import CorruptFileError, InvalidInputError
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
        piece = binary_row.minimal_twos_complement(unscaled_of(value, t))
    else:
        piece = encode_compacted_piece(value, t)
    return encode_varint(len(piece)) + piece


def encode_compacted_piece(value: Any, t: DataType) -> bytes:
    """Encode the bytes of a string, binary, VARIANT or nested value inside a compacted row, without the length before them."""
    if t.root is Root.ROW:
        return encode_compacted(value, [f.type for f in t.fields])
    if t.root is Root.VARIANT:
        body, metadata = value
        found: bytes = encode_varint(len(body)) + body + encode_varint(len(metadata)) + metadata
        return found
    return binary_row.encode_piece(value, t)


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
        return binary_row.checked_decimal(_I64.unpack(_take(data, at, 8))[0], t, at), at + 8
    length, start = decode_varint(data, at)
    return decode_compacted_piece(_take(data, start, length), t, start), start + length


def decode_compacted_piece(piece: bytes, t: DataType, at: int) -> Any:
    """Decode what `encode_compacted_piece` made, DECIMAL p > 18 included (`at` is for messages)."""
    if t.root is Root.ROW:
        return tuple(decode_compacted(piece, [f.type for f in t.fields]))
    if t.root is Root.VARIANT:
        length, start = decode_varint(piece, 0)
        body = _take(piece, start, length)
        length, start = decode_varint(piece, start + length)
        return body, _take(piece, start, length)
    return binary_row.decode_piece(piece, t, at)


def _take(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise CorruptFileError(f"expected {length} bytes, found {len(data) - at}", offset=at)
    return bytes(data[at : at + length])
