"""Values of a BinaryRow, BinaryArray or BinaryMap: what `lakeidx.codec.rows.binary_row_write` writes, read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from lakeidx.codec.rows.binary_row import FIXED, I32, I64, LENGTH_OFFSET, MAX_NANOS, element_width, header_size
from lakeidx.codec.values import decimal_of, map_types
from lakeidx.errors import CorruptFileError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root


def decode_row(data: bytes, types: Sequence[DataType], wanted: Iterable[int] | None = None) -> list[Any]:
    """Decode the internal values of a BinaryRow without arity prefix; the kind byte is ignored.

    wanted   positions of the columns to decode, in order; None = all
    errors   CorruptFileError when the bytes cannot be such a row
    """
    header = header_size(len(types))
    if len(data) < header + 8 * len(types):
        raise CorruptFileError(
            f"a row of {len(types)} columns has at least {header + 8 * len(types)} bytes, found {len(data)}", offset=0
        )
    return [
        None if data[(i + 8) // 8] >> (i % 8) & 1 else _get(data, header + 8 * i, types[i], where=i)
        for i in (range(len(types)) if wanted is None else wanted)
    ]


def decode_array(data: bytes, element: DataType) -> list[Any]:
    """Decode the internal values of a BinaryArray.

    errors   CorruptFileError when the bytes cannot be such an array
    """
    if len(data) < 4:
        raise CorruptFileError(f"an array has at least 4 bytes, found {len(data)}", offset=0)
    (size,) = I32.unpack_from(data, 0)
    width = element_width(element)
    fixed_at = 4 + (size + 31) // 32 * 4
    if size < 0 or len(data) < fixed_at + width * size:
        raise CorruptFileError(f"an array of {size} elements does not fit {len(data)} bytes", offset=0)
    return [
        None if data[4 + i // 8] >> (i % 8) & 1 else _get(data, fixed_at + width * i, element, where=i)
        for i in range(size)
    ]


def decode_map(data: bytes, key: DataType, item: DataType) -> list[tuple[Any, Any]]:
    """Decode the pairs of a BinaryMap.

    errors   CorruptFileError when the bytes cannot be such a map
    """
    if len(data) < 4:
        raise CorruptFileError(f"a map has at least 4 bytes, found {len(data)}", offset=0)
    (key_bytes,) = I32.unpack_from(data, 0)
    if not 0 <= key_bytes <= len(data) - 4:
        raise CorruptFileError(f"a key array of {key_bytes} bytes does not fit a map of {len(data)}", offset=0)
    keys = decode_array(data[4 : 4 + key_bytes], key)
    items = decode_array(data[4 + key_bytes :], item)
    if len(keys) != len(items):
        raise CorruptFileError(f"a map has {len(keys)} keys and {len(items)} values", offset=0)
    return list(zip(keys, items, strict=True))


def _get(data: bytes, at: int, t: DataType, where: int) -> Any:
    """Read the non-null value whose slot is at `at`; `where` (field or element number) is for messages."""
    fixed = FIXED.get(t.root)
    if fixed is not None:
        return fixed.unpack_from(data, at)[0]
    if t.is_compact:
        value = I64.unpack_from(data, at)[0]
        return checked_decimal(value, t, at) if t.root is Root.DECIMAL else (value, 0)
    is_bytes = t.root in STRING_ROOTS or t.root in BYTES_ROOTS
    if is_bytes and data[at + 7] & 0x80:
        length = data[at + 7] & 0x7F
        if length > 7:
            raise CorruptFileError(f"value {where}: {length} bytes inside a slot, at most 7 fit", offset=at + 7)
        raw = data[at : at + length]
    else:
        length, offset = LENGTH_OFFSET.unpack_from(data, at)
        size = 8 if t.root in TIMESTAMP_ROOTS else length
        if offset + size > len(data):
            raise CorruptFileError(
                f"value {where}: {size} bytes at {offset} lie outside the {len(data)} bytes of its row", offset=at
            )
        raw = data[offset : offset + size]
        if t.root in TIMESTAMP_ROOTS:
            if length > MAX_NANOS:
                raise CorruptFileError(f"value {where}: {length} nanos in a milli", offset=at)
            return I64.unpack(raw)[0], length
    return decode_piece(raw, t, at)


def decode_piece(raw: bytes, t: DataType, at: int) -> Any:
    """Decode a value stored as bytes of its own: string, binary, DECIMAL p > 18, VARIANT or nested (`at` is for messages)."""
    if t.root in STRING_ROOTS:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as e:
            raise CorruptFileError(f"not UTF-8: {e}", offset=at) from e
    if t.root in BYTES_ROOTS:
        return bytes(raw)
    if t.root is Root.DECIMAL:
        if not 1 <= len(raw) <= 16:
            raise CorruptFileError(f"an unscaled value has 1 to 16 bytes, found {len(raw)}", offset=at)
        return checked_decimal(int.from_bytes(raw, "big", signed=True), t, at)
    if t.root is Root.ROW:
        return tuple(decode_row(raw, [f.type for f in t.fields]))
    if t.root is Root.VARIANT:
        length = I32.unpack_from(raw, 0)[0] if len(raw) >= 4 else -1
        if not 0 <= length <= len(raw) - 4:
            raise CorruptFileError(f"a VARIANT value of {length} bytes does not fit {len(raw)} bytes", offset=at)
        return bytes(raw[4 : 4 + length]), bytes(raw[4 + length :])
    return _decode_collection(raw, t)


def _decode_collection(raw: bytes, t: DataType) -> Any:
    """Decode an ARRAY from BinaryArray bytes; a MAP or MULTISET from BinaryMap bytes."""
    if t.root is Root.ARRAY:
        assert t.element is not None
        return decode_array(raw, t.element)
    key, item = map_types(t)
    return decode_map(raw, key, item)


def checked_decimal(unscaled: int, t: DataType, at: int) -> Decimal:
    """Return the DECIMAL value of an unscaled integer that was read at `at`.

    errors   CorruptFileError when it has more digits than the type
    """
    if abs(unscaled) >= 10**t.precision:
        raise CorruptFileError(f"the unscaled value {unscaled} has more digits than {t}", offset=at)
    return decimal_of(unscaled, t)
