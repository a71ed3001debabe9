"""How a sort store orders its keys: as unsigned bytes, or as rows in Paimon's compacted form, field by field.

A compacted row is ``(arity + 15) / 8`` header bytes (byte 0 the row kind, bit 8 + i set when field i is null), then the fields
that are not null, in order:

=====================  =========================================  ==========================================
type                   bytes                                      order
=====================  =========================================  ==========================================
BOOLEAN, TINYINT       1                                          signed
SMALLINT               2, little-endian                           signed
INT, DATE, TIME        4, little-endian                           signed
BIGINT                 8, little-endian                           signed
FLOAT, DOUBLE          4 or 8, little-endian                      Java's: -0.0 before 0.0, every NaN last and equal
CHAR, VARCHAR, BYTES   varint length, bytes                       unsigned bytes
DECIMAL p <= 18        8, little-endian, unscaled                 signed
DECIMAL p > 18         varint length, two's complement, BE        number
TIMESTAMP p <= 3       8, little-endian, epoch ms                 signed
TIMESTAMP p > 3        the same 8, then varint nanos of the ms    ms, then nanos
=====================  =========================================  ==========================================

Null comes before every value; the row kind does not count. Java cannot compare BINARY keys (ClassCastException); here they have
the order of unsigned bytes.

source   org.apache.paimon.data.serializer.RowCompactedSerializer (createSliceComparator), release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import inlined, kernel, kernel_with_lock
from lakeidx.codec.memory import bytes_address, compare_bytes, load_i64, load_u8, load_u16, load_u32
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import load_varint, load_varint_unchecked
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.lookup.packed import addresses_of, plain
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_I8, _I16, _I32, _I64, _F32, _F64, _BYTES, _NUMBER, _TIMESTAMP = range(1, 10)
_CODES = {Root.BOOLEAN: _I8, Root.TINYINT: _I8, Root.SMALLINT: _I16, Root.INT: _I32, Root.DATE: _I32, Root.TIME: _I32,
          Root.BIGINT: _I64, Root.FLOAT: _F32, Root.DOUBLE: _F64}  # fmt: skip
_FAULTS = {
    1: "it ends before its header or a field does",
    2: "bytes follow the last field",
    3: "null bits are set beyond the last field",
}


def _code(data_type: DataType) -> int:
    if data_type.root in STRING_ROOTS or data_type.root in BYTES_ROOTS:
        return _BYTES
    if data_type.root is Root.DECIMAL:
        return _I64 if data_type.is_compact else _NUMBER
    if data_type.root in TIMESTAMP_ROOTS:
        return _I64 if data_type.is_compact else _TIMESTAMP
    if data_type.root not in _CODES:
        raise UnsupportedError(f"a lookup key cannot contain {data_type}: its values have no order")
    return _CODES[data_type.root]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The order of the keys of one store, and the form they must have.

    types          of the key fields, or None for plain bytes
    codes          int64[number of fields], what kernels read; empty for plain bytes
    for_kernels    address and number of the codes
    """

    types: tuple[DataType, ...] | None
    codes: npt.NDArray[np.int64] = field(init=False, repr=False, compare=False)
    for_kernels: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        codes = np.array([_code(t) for t in self.types or ()], np.int64)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "for_kernels", (int(codes.ctypes.data), len(codes)))

    def __reduce__(self) -> tuple[object, ...]:
        # The address is only good in this process and for this object.
        return KeyOrder, (self.types,)

    @classmethod
    def unsigned_bytes(cls) -> KeyOrder:
        """Make an order of any bytes, compared as unsigned bytes."""
        return cls(None)

    @classmethod
    def row_compacted(cls, types: Sequence[DataType]) -> KeyOrder:
        """Make an order of compacted rows of the given types.

        errors   InvalidInputError for no type, UnsupportedError for a nested one or VARIANT
        """
        if not types:
            raise InvalidInputError("a compacted key has at least one field")
        return cls(tuple(types))

    def __str__(self) -> str:
        return "unsigned bytes" if self.types is None else f"rows of ({', '.join(str(t) for t in self.types)})"

    def check(self, keys: RowBytes, *, first: int = 0) -> None:
        """Refuse keys that are not rows of these types.

        first    number of keys[0] in messages
        errors   InvalidInputError naming the first bad key and what is wrong with it
        cost     one pass; nothing for plain bytes
        """
        if self.types is None:
            return
        keys = plain(keys)
        data, offsets = addresses_of(keys)
        at, fault = _first_bad_row(data, offsets, len(keys), *self.for_kernels)
        if fault:
            raise self._refusal(f"key {first + int(at)}", keys[int(at)], int(fault))

    def check_one(self, key: bytes) -> None:
        """Check a single key.

        errors   InvalidInputError when it is not bytes or not a row of these types
        """
        if not isinstance(key, bytes):
            raise InvalidInputError(f"a lookup key is bytes, not {type(key).__name__}")
        if self.types is not None:
            fault = _fault_of(key, *self.for_kernels)
            if fault:
                raise self._refusal("the key", key, int(fault))

    def compare(self, a: bytes, b: bytes) -> int:
        """Return -1, 0 or 1; both keys must have passed `check`."""
        return int(compare_keys(*_span(a), *_span(b), *self.for_kernels))

    def _refusal(self, which: str, key: bytes, fault: int) -> InvalidInputError:
        shown = key[:32].hex() + ("..." if len(key) > 32 else "")
        return InvalidInputError(f"{which} ({len(key)} bytes, {shown}) is not one of {self}: {_FAULTS[fault]}")


def _span(key: bytes) -> tuple[int, int]:
    view = np.frombuffer(key, np.uint8)
    return view.ctypes.data, len(view)


@kernel
def row_fault(row: Any, length: Any, codes: Any, fields: Any) -> Any:  # noqa: C901 - a kernel is one loop
    """Return 0 when the bytes are a compacted row of the types in `codes`, else which fault (1, 2 or 3)."""
    header = (fields + 15) >> 3
    if length < header:
        return 1
    end = row + length
    at = row + header
    for i in range(fields):
        if load_u8(row + 1 + (i >> 3)) >> (i & 7) & 1:
            continue
        code = load_i64(codes + 8 * i)
        if code == 1:
            at += 1
        elif code == 2:
            at += 2
        elif code == 3 or code == 5:
            at += 4
        elif code == 4 or code == 6:
            at += 8
        elif code == 9:
            if at + 8 > end:
                return 1
            _, at = load_varint(at + 8, end)
            if at == 0:
                return 1
        else:
            size, at = load_varint(at, end)
            if at == 0 or size > end - at:
                return 1
            if code == 8 and size == 0:
                return 1
            at += size
        if at > end:
            return 1
    if at < end:
        return 2
    for bit in range(fields, (header - 1) * 8):
        if load_u8(row + 1 + (bit >> 3)) >> (bit & 7) & 1:
            return 3
    return 0


@kernel_with_lock
def _fault_of(key: Any, codes: Any, fields: Any) -> Any:
    return row_fault(bytes_address(key), np.int64(len(key)), codes, fields)


@kernel
def _first_bad_row(data: Any, offsets: Any, n: Any, codes: Any, fields: Any) -> Any:
    for i in range(n):
        start, end = load_i64(offsets + 8 * i), load_i64(offsets + 8 * i + 8)
        fault = row_fault(data + start, end - start, codes, fields)
        if fault:
            return i, fault
    return 0, 0


@inlined
def signed_at(address: Any, size: Any) -> Any:
    """Load a signed number of 1, 2, 4 or 8 bytes, for kernels."""
    if size == 8:
        return load_i64(address)
    if size == 4:
        return np.int64(np.int32(load_u32(address)))
    if size == 2:
        return np.int64(np.int16(load_u16(address)))
    return np.int64(np.int8(load_u8(address)))


@inlined
def float_rank32(address: Any) -> Any:
    """Map a float to a signed number in the order of ``Float.compare``."""
    bits = np.int64(np.int32(load_u32(address)))
    if bits & 0x7FFFFFFF > 0x7F800000:
        bits = np.int64(0x7FC00000)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@inlined
def float_rank64(address: Any) -> Any:
    """Map a double to a signed number in the order of ``Double.compare``."""
    bits: Any = load_i64(address)
    if bits & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000:
        bits = np.int64(0x7FF8000000000000)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


@kernel
def _compare_numbers(a: Any, a_size: Any, b: Any, b_size: Any) -> Any:
    """Order of two big-endian two's complement numbers of at least one byte each."""
    negative = load_u8(a) >> 7
    if negative != load_u8(b) >> 7:
        return -1 if negative else 1
    fill = 255 if negative else 0
    # Bytes that only repeat the sign do not count, though Java never writes them.
    while a_size > 1 and load_u8(a) == fill and load_u8(a + 1) >> 7 == negative:
        a, a_size = a + 1, a_size - 1
    while b_size > 1 and load_u8(b) == fill and load_u8(b + 1) >> 7 == negative:
        b, b_size = b + 1, b_size - 1
    if a_size != b_size:
        return -1 if (a_size < b_size) != (negative == 1) else 1
    return compare_bytes(a, a_size, b, b_size)


@kernel
def _compare_rows(a: Any, b: Any, codes: Any, fields: Any) -> Any:
    header = (fields + 15) >> 3
    at, bt = a + header, b + header
    for i in range(fields):
        shift = i & 7
        a_null = load_u8(a + 1 + (i >> 3)) >> shift & 1
        b_null = load_u8(b + 1 + (i >> 3)) >> shift & 1
        if a_null or b_null:
            if a_null and b_null:
                continue
            return -1 if a_null else 1
        code = load_i64(codes + 8 * i)
        if code == 7 or code == 8:
            a_size, at = load_varint_unchecked(at)
            b_size, bt = load_varint_unchecked(bt)
            order = compare_bytes(at, a_size, bt, b_size) if code == 7 else _compare_numbers(at, a_size, bt, b_size)
            if order:
                return order
            at += a_size
            bt += b_size
            continue
        if code == 5:
            x, y, size = float_rank32(at), float_rank32(bt), 4
        elif code == 6:
            x, y, size = float_rank64(at), float_rank64(bt), 8
        else:
            size = 8 if code == 4 or code == 9 else (4 if code == 3 else code)
            x, y = signed_at(at, size), signed_at(bt, size)
        if x != y:
            return -1 if x < y else 1
        at += size
        bt += size
        if code == 9:
            x, at = load_varint_unchecked(at)
            y, bt = load_varint_unchecked(bt)
            if x != y:
                return -1 if x < y else 1
    return 0


@kernel
def compare_keys(a: Any, a_length: Any, b: Any, b_length: Any, codes: Any, fields: Any) -> Any:
    """Return -1, 0 or 1 for two keys that passed the check, given by address and length; `fields` 0 means plain bytes."""
    if fields == 0:
        return compare_bytes(a, a_length, b, b_length)
    return _compare_rows(a, b, codes, fields)
