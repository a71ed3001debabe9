"""Paimon's BinaryRow, BinaryArray and BinaryMap, one value at a time: the plain twin of ``binary_row_vec``.

Byte order: little endian throughout (the writer's machine order); the arity prefix of `with_arity` is big endian.

=====================  ============================================================================================
row                    content
=====================  ============================================================================================
header                 ``ceil((arity + 8) / 64) * 8`` bytes: byte 0 row kind, bit ``8 + i`` null of field i (LSB first)
slots                  8 bytes per field
variable part          pieces in field order, each zero-padded to 8; an offset counts from the start of the row
=====================  ============================================================================================

=====================  ============================================================================================
slot                   content
=====================  ============================================================================================
BOOLEAN .. DOUBLE      the value at its own width, rest zero; DATE and TIME as i32
bytes, length <= 7     the bytes, zero fill, last byte ``0x80 + length``
bytes, longer          u32 length, u32 offset
DECIMAL                p <= 18: i64 unscaled; else u32 length, u32 offset of 16 bytes: big-endian, minimal length
TIMESTAMP              p <= 3: i64 millis; else u32 nanos of the milli, u32 offset of an i64 millis
nested, VARIANT        u32 length, u32 offset
null                   zero; DECIMAL p > 18 and TIMESTAMP p > 3 still reserve their bytes and keep the offset
=====================  ============================================================================================

ARRAY: i32 size, null bits in 4-byte steps, elements at own width, rounded up to 8, variable part. A null element is a
zero slot and reserves nothing; NaN is written canonically (in rows its bits stay). MAP: i32 byte length of the key
array, key array, value array. VARIANT: i32 length of the value, value, metadata.

source   org.apache.paimon.data.BinaryRowWriter, BinaryArrayWriter, BinaryMap, RowHelper; release 1.4.2
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from lakeidx.codec.values import map_types, unscaled_of
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

# How a value of each fixed-width type is written, in rows and in compacted rows.
FIXED = {
    Root.BOOLEAN: struct.Struct("<?"),
    Root.TINYINT: struct.Struct("<b"),
    Root.SMALLINT: struct.Struct("<h"),
    Root.INT: struct.Struct("<i"),
    Root.DATE: struct.Struct("<i"),
    Root.TIME: struct.Struct("<i"),
    Root.BIGINT: struct.Struct("<q"),
    Root.FLOAT: struct.Struct("<f"),
    Root.DOUBLE: struct.Struct("<d"),
}
_NAN = {Root.FLOAT: bytes.fromhex("0000c07f"), Root.DOUBLE: bytes.fromhex("000000000000f87f")}
I32 = struct.Struct("<i")
I64 = struct.Struct("<q")
LENGTH_OFFSET = struct.Struct("<II")
_ARITY = struct.Struct(">i")
MAX_NANOS = 999_999


def header_size(arity: int) -> int:
    """Return the bytes before the first slot of a row: kind byte and null bits, in whole 8-byte words."""
    return (arity + 63 + 8) // 64 * 8


def _reserves_when_null(t: DataType) -> bool:
    """Return True for the types whose null still takes variable space in a row (DECIMAL p > 18, TIMESTAMP p > 3)."""
    return (t.root is Root.DECIMAL or t.root in TIMESTAMP_ROOTS) and not t.is_compact


def element_width(t: DataType) -> int:
    """Return the bytes of one array element in the fixed part."""
    fixed = FIXED.get(t.root)
    return fixed.size if fixed is not None else 8


def encode_row(values: Sequence[Any], types: Sequence[DataType], kind: int = 0) -> bytes:
    """Encode one row of internal values as BinaryRow bytes, without the arity prefix.

    kind     0 +I, 1 -U, 2 +U, 3 -D; keys, partitions and statistics always 0
    errors   InvalidInputError when a value is not of its type
    """
    if len(values) != len(types):
        raise InvalidInputError(f"{len(values)} values for {len(types)} columns")
    header = at = header_size(len(types))
    out = bytearray(header + 8 * len(types))
    out[0] = kind
    for value, t in zip(values, types, strict=True):
        if value is None:
            i = (at - header) // 8
            out[(i + 8) // 8] |= 1 << (i % 8)
            if _reserves_when_null(t):
                LENGTH_OFFSET.pack_into(out, at, 0, len(out))
                out += bytes(16 if t.root is Root.DECIMAL else 8)
        else:
            _put(out, at, value, t)
        at += 8
    return bytes(out)


def _encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Encode internal values of one element type as BinaryArray bytes."""
    nulls_at, width = 4, element_width(element)
    fixed_at = nulls_at + (len(values) + 31) // 32 * 4
    out = bytearray((fixed_at + width * len(values) + 7) // 8 * 8)
    I32.pack_into(out, 0, len(values))
    canonical_nan = _NAN.get(element.root)
    for i, value in enumerate(values):
        at = fixed_at + width * i
        if value is None:
            out[nulls_at + i // 8] |= 1 << (i % 8)
        elif canonical_nan is not None and isinstance(value, float) and math.isnan(value):
            out[at : at + width] = canonical_nan
        else:
            _put(out, at, value, element)
    return bytes(out)


def _encode_map(pairs: Sequence[tuple[Any, Any]], key: DataType, item: DataType) -> bytes:
    """Encode the pairs as BinaryMap bytes, in the given order."""
    keys = _encode_array([k for k, _ in pairs], key)
    return I32.pack(len(keys)) + keys + _encode_array([v for _, v in pairs], item)


def _put(out: bytearray, at: int, value: Any, t: DataType) -> None:
    """Write a non-null value into its slot at `at`, appending to `out` what does not fit the slot."""
    try:
        fixed = FIXED.get(t.root)
        if fixed is not None:
            fixed.pack_into(out, at, value)
        elif t.root is Root.DECIMAL:
            unscaled = unscaled_of(value, t)
            if t.is_compact:
                I64.pack_into(out, at, unscaled)
            else:
                raw = minimal_twos_complement(unscaled)
                LENGTH_OFFSET.pack_into(out, at, len(raw), len(out))
                out += raw.ljust(16, b"\0")
        elif t.root in TIMESTAMP_ROOTS:
            _put_timestamp(out, at, value, t)
        else:
            raw = encode_piece(value, t)
            if len(raw) <= 7 and (t.root in STRING_ROOTS or t.root in BYTES_ROOTS):
                out[at : at + 8] = raw.ljust(7, b"\0") + bytes((0x80 + len(raw),))
            else:
                LENGTH_OFFSET.pack_into(out, at, len(raw), len(out))
                out += raw + bytes(-len(raw) % 8)
    except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as e:
        raise InvalidInputError(f"{value!r} is not a value of {t}: {e}") from e


def _put_timestamp(out: bytearray, at: int, value: tuple[int, int], t: DataType) -> None:
    millis, nanos = value
    if t.is_compact:
        I64.pack_into(out, at, millis)
        return
    if not 0 <= nanos <= MAX_NANOS:
        raise ValueError("nanos of a milli are 0 to 999999")
    LENGTH_OFFSET.pack_into(out, at, nanos, len(out))
    out += I64.pack(millis)


def encode_piece(value: Any, t: DataType) -> bytes:
    """Encode the bytes of a string, binary, VARIANT or nested value."""
    if t.root in STRING_ROOTS:
        return str.encode(value, "utf-8")
    if t.root in BYTES_ROOTS:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("expected bytes")
        return bytes(value)
    if t.root is Root.ROW:
        return encode_row(value, [f.type for f in t.fields])
    if t.root is Root.VARIANT:
        body, metadata = value
        found: bytes = I32.pack(len(body)) + body + metadata
        return found
    return _encode_collection(value, t)


def _encode_collection(value: Any, t: DataType) -> bytes:
    """Encode an ARRAY as BinaryArray bytes; a MAP or MULTISET as BinaryMap bytes."""
    if t.root is Root.ARRAY:
        assert t.element is not None
        return _encode_array(value, t.element)
    key, item = map_types(t)
    return _encode_map(value, key, item)


def minimal_twos_complement(value: int) -> bytes:
    """Return big-endian two's complement in as few bytes as hold the sign, at least one (Java BigInteger.toByteArray)."""
    bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def with_arity(row: bytes, arity: int) -> bytes:
    """Prefix a row with its arity, the form rows have in manifests: i32 big-endian arity, then the row."""
    return _ARITY.pack(arity) + row


def split_arity(data: bytes) -> tuple[int, bytes]:
    """Split the prefixed form into arity and BinaryRow.

    errors   CorruptFileError when it is too short for the arity it names
    """
    if len(data) < 4:
        raise CorruptFileError(f"a prefixed row has at least 4 bytes, found {len(data)}", offset=0)
    (arity,) = _ARITY.unpack_from(data, 0)
    if arity < 0 or len(data) - 4 < header_size(arity) + 8 * arity:
        raise CorruptFileError(f"{len(data) - 4} bytes cannot hold a row of {arity} columns", offset=0)
    return arity, bytes(data[4:])
