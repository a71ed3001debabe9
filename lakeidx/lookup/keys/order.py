"""Order of the keys of a sort store: as unsigned bytes, or as rows in Paimon's compacted form, field by field.

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

Eight-byte stand-ins for keys, so that most steps of a binary search compare two numbers and do not branch.

The rank of a key is a uint64 that never decreases when the key increases; keys of equal rank are distinguished by `compare_keys`.
It comes from the first field (plain bytes: the key itself):

=======================  ==============================================================================
first field              rank
=======================  ==============================================================================
integers, dates, times   the number with its sign bit turned
FLOAT, DOUBLE            its place in Java's order, sign bit turned
strings, bytes           the 8 bytes after the first `skip` ones, big-endian, zeros after the end
DECIMAL p > 18           0: such keys are always compared in full
null                     0
=======================  ==============================================================================

`skip` is the length of a prefix that all keys of a block (or of the index) share; a key looked up that does not have the prefix
gets no rank there and is compared in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import (
    compare_memory,
    load_be32,
    load_be64,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
)
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import load_varint, load_varint_unchecked
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.lookup.packed import addresses_of, contiguous
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
        keys = contiguous(keys)
        data, offsets = addresses_of(keys)
        at, fault = _first_bad_row(data, offsets, len(keys), *self.for_kernels)
        if fault:
            raise self._refusal(f"key {first + int(at)}", keys[int(at)], int(fault))

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


@kernel
def _first_bad_row(data: Any, offsets: Any, n: Any, codes: Any, fields: Any) -> Any:
    for i in range(n):
        start, end = load_i64(offsets + 8 * i), load_i64(offsets + 8 * i + 8)
        fault = row_fault(data + start, end - start, codes, fields)
        if fault:
            return i, fault
    return 0, 0


@inlined
def _signed_at(address: Any, size: Any) -> Any:
    """Load a signed number of 1, 2, 4 or 8 bytes, for kernels."""
    if size == 8:
        return load_i64(address)
    if size == 4:
        return np.int64(np.int32(load_u32(address)))
    if size == 2:
        return np.int64(np.int16(load_u16(address)))
    return np.int64(np.int8(load_u8(address)))


@inlined
def _float_rank32(address: Any) -> Any:
    """Map a float to a signed number in the order of ``Float.compare``."""
    bits = np.int64(np.int32(load_u32(address)))
    if bits & 0x7FFFFFFF > 0x7F800000:
        bits = np.int64(0x7FC00000)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@inlined
def _float_rank64(address: Any) -> Any:
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
    return compare_memory(a, a_size, b, b_size)


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
            order = compare_memory(at, a_size, bt, b_size) if code == 7 else _compare_numbers(at, a_size, bt, b_size)
            if order:
                return order
            at += a_size
            bt += b_size
            continue
        if code == 5:
            x, y, size = _float_rank32(at), _float_rank32(bt), 4
        elif code == 6:
            x, y, size = _float_rank64(at), _float_rank64(bt), 8
        else:
            size = 8 if code == 4 or code == 9 else (4 if code == 3 else code)
            x, y = _signed_at(at, size), _signed_at(bt, size)
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
        return compare_memory(a, a_length, b, b_length)
    return _compare_rows(a, b, codes, fields)


_SIGN = np.uint64(1 << 63)


@inlined
def _first_bytes(key: Any, size: Any, codes: Any, fields: Any) -> Any:
    """Address and size of the string that ranks come from; size -1 when they do not come from a string."""
    if fields == 0:
        return key, size
    if load_i64(codes) != 7 or load_u8(key + 1) & 1:
        return key, np.int64(-1)
    length, start = load_varint_unchecked(key + ((fields + 15) >> 3))
    return start, length


@kernel
def common_prefix(first: Any, first_size: Any, last: Any, last_size: Any, codes: Any, fields: Any) -> Any:
    """Return the `skip` of a run of keys in order, from its first and last key."""
    a, a_size = _first_bytes(first, first_size, codes, fields)
    b, b_size = _first_bytes(last, last_size, codes, fields)
    n = np.int64(0)
    while n < min(a_size, b_size) and load_u8(a + n) == load_u8(b + n):
        n += 1
    return n


@kernel
def shares_prefix(key: Any, size: Any, member: Any, member_size: Any, skip: Any, codes: Any, fields: Any) -> Any:
    """Return True when a key begins like the members of a run with this `skip`."""
    a, a_size = _first_bytes(key, size, codes, fields)
    if a_size < skip:
        return False
    b, _ = _first_bytes(member, member_size, codes, fields)
    return compare_memory(a, skip, b, skip) == 0


@inlined
def _rank_of_bytes(start: Any, size: Any) -> Any:
    if size >= 8:
        return load_be64(start)
    rank = np.uint64(0)
    at = np.int64(0)
    if size >= 4:
        rank = np.uint64(load_be32(start)) << np.uint64(32)
        at = np.int64(4)
    while at < size:
        rank |= np.uint64(load_u8(start + at)) << np.uint64(56 - 8 * at)
        at += 1
    return rank


@kernel
def _rank_of_row(key: Any, codes: Any, fields: Any, skip: Any) -> Any:
    """Rank of a compacted row."""
    if load_u8(key + 1) & 1:
        return np.uint64(0)
    code = load_i64(codes)
    at = key + ((fields + 15) >> 3)
    if code == 7:
        length, start = load_varint_unchecked(at)
        return _rank_of_bytes(start + skip, length - skip)
    if code == 8:
        return np.uint64(0)
    if code == 5:
        return np.uint64(_float_rank32(at)) ^ _SIGN
    if code == 6:
        return np.uint64(_float_rank64(at)) ^ _SIGN
    size = 8 if code == 4 or code == 9 else (4 if code == 3 else code)
    return np.uint64(_signed_at(at, size)) ^ _SIGN


@inlined
def rank_of(key: Any, size: Any, codes: Any, fields: Any, skip: Any) -> Any:
    """Rank of a key that has the run's prefix."""
    if fields == 0:
        return _rank_of_bytes(key + skip, size - skip)
    return _rank_of_row(key, codes, fields, skip)
