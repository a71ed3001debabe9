"""Values written as a BinaryRow, BinaryArray or BinaryMap, one at a time: the plain twin of `lakeidx.codec.rows.binary_row_vec`."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from lakeidx.codec.rows.binary_row import FIXED, I32, I64, LENGTH_OFFSET, MAX_NANOS, element_width, header_size
from lakeidx.codec.values import map_types, unscaled_of
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_NAN = {Root.FLOAT: bytes.fromhex("0000c07f"), Root.DOUBLE: bytes.fromhex("000000000000f87f")}


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


def _reserves_when_null(t: DataType) -> bool:
    """Return True for the types whose null still takes variable space in a row (DECIMAL p > 18, TIMESTAMP p > 3)."""
    return (t.root is Root.DECIMAL or t.root in TIMESTAMP_ROOTS) and not t.is_compact
