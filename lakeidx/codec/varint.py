"""Variable-length unsigned integers of Paimon's lookup files and compacted rows: 7 bits a byte, low group first.

A byte with its top bit set is followed by another. ``int`` takes 1..5 bytes, ``long`` 1..10. Lengths and offsets are never
negative, so a decoded ``int`` above 2,147,483,647 is damage.

source   org.apache.paimon.utils.VarLengthIntUtils, release 1.4.2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import load_u8, store_u8
from lakeidx.errors import CorruptFileError, InvalidInputError

MAX_INT = 2147483647


def encode_varint(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1 in the shortest form.

    errors   InvalidInputError outside that range
    """
    if not 0 <= value < 1 << 64:
        raise InvalidInputError(f"a varint holds 0 to 2**64 - 1, not {value}")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(
    data: bytes | memoryview, pos: int, *, limit: int = MAX_INT, path: str | None = None, base: int = 0
) -> tuple[int, int]:
    """Read one number.

    pos      where it begins
    limit    the greatest value allowed
    base     added to positions in errors, when `data` is a part of `path`
    returns  (value, position after it)
    errors   CorruptFileError when the bytes end first or the value is above the limit
    """
    if pos < len(data) and data[pos] < 0x80 and data[pos] <= limit:
        return data[pos], pos + 1
    value = 0
    for i in range(10):
        at = pos + i
        if at >= len(data):
            raise CorruptFileError("expected a varint, found the end of the bytes", path=path, offset=base + pos)
        value |= (data[at] & 0x7F) << (7 * i)
        if data[at] < 0x80:
            if value > limit:
                break
            return value, at + 1
    raise CorruptFileError(f"varint above {limit}", path=path, offset=base + pos)


@inlined
def varint_size(value: Any) -> Any:
    """Return the bytes of the shortest form of a number >= 0, for kernels."""
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


@inlined
def store_varint(address: Any, value: Any) -> Any:
    """Write a number >= 0 and give the address after it, for kernels."""
    while value >= 128:
        store_u8(address, (value & 127) | 128)
        value >>= 7
        address += 1
    store_u8(address, value)
    return address + 1


@kernel
def load_varint(address: Any, end: Any) -> Any:
    """Read a number that must end before address `end`, for kernels.

    returns  (value, address after it); address 0 when the bytes end first or the value is above 2**63 - 1
    """
    value: Any = np.int64(0)
    shift: Any = np.int64(0)
    while address < end and shift < 63:
        byte = load_u8(address)
        address += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, address
        shift += 7
    return np.int64(0), np.int64(0)


@inlined
def load_varint_unchecked(address: Any) -> Any:
    """Read a number from bytes checked before, for kernels.

    returns  (value, address after it)
    """
    byte = load_u8(address)
    address += 1
    value = byte & 127
    shift: Any = np.int64(7)
    while byte >= 128:
        byte = load_u8(address)
        address += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, address
