"""Thrift's compact protocol, as much of it as Parquet footers and page indexes need.

A struct is a list of fields and ends with 0. A field header is ``delta << 4 | type`` (delta 0: the field id follows as a zigzag
varint), numbers are zigzag varints, a list header is ``count << 4 | type`` (count 15: the count follows as a varint), a text is a
varint of its length and the bytes. Writers here make bytes. Readers in Python (`decode_struct` and what it calls) raise for damage;
those for kernels (`read_field`, `skip` and others) check every length against the bytes there are, and say damage by position -1,
which they pass on when they are given it.

source   Thrift compact protocol; parquet-format 2.10
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, inlined
from lakeidx.codec.varint import decode_varint, encode_varint

TRUE, FALSE, I32, I64, BINARY, LIST, STRUCT = 1, 2, 5, 6, 8, 9, 12
_BYTE, _I16, _DOUBLE, _SET = 3, 4, 7, 10
_LONG = (1 << 64) - 1
_MAX_DEPTH = 64


def field(delta: int, kind: int) -> bytes:
    """Encode the header of a field, `delta` (1 to 15) after the one before."""
    return bytes([delta << 4 | kind])


def thrift_number(n: int) -> bytes:
    """Encode an integer of any width."""
    return encode_varint(n << 1 if n >= 0 else (-n << 1) - 1)


def thrift_text(raw: bytes) -> bytes:
    """Encode a BINARY value."""
    return encode_varint(len(raw)) + raw


def list_of(items: Sequence[bytes], kind: int) -> bytes:
    """Encode a list of encoded items."""
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + encode_varint(len(items))
    return head + b"".join(items)


def decode_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[tuple[int, ...], Any], int]:
    """Decode a struct: values by field id and type, of a list by that of its items too; and the position after it.

    errors   CorruptFileError, ValueError or IndexError for anything else
    """
    found: dict[tuple[int, ...], Any] = {}
    last = 0
    while head := data[at]:
        kind, at = head & 15, at + 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = decode_number(data, at)
        if kind in (LIST, _SET):
            inner = FALSE if data[at] & 15 == TRUE else data[at] & 15
            found[last, kind, inner], at = _decode_list(data, at, depth + 1)
        else:
            found[last, kind], at = _decode_value(data, at, kind, depth + 1)
    return found, at + 1


def _decode_value(data: bytes, at: int, kind: int, depth: int = 1) -> tuple[Any, int]:
    """Decode a value of a type, as `decode_struct` has them; and the position after it."""
    if depth == _MAX_DEPTH:
        raise ValueError("structs and lists too deep")
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (_I16, I32, I64):
        return decode_number(data, at)
    if kind in (_BYTE, _DOUBLE, BINARY):
        size, at = decode_varint(data, at) if kind == BINARY else (1 if kind == _BYTE else 8, at)
        if size > len(data) - at:
            raise ValueError("a value reaches beyond the end")
        return data[at : at + size], at + size
    if kind in (LIST, _SET):
        return _decode_list(data, at, depth)
    if kind != STRUCT:
        raise ValueError(f"a value of unknown type {kind}")
    return decode_struct(data, at, depth)


def decode_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Decode a list header: items, their type, and the position after it."""
    count, inner, at = data[at] >> 4, data[at] & 15, at + 1
    if count == 15:
        count, at = decode_varint(data, at)
    return count, inner, at


def _decode_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    count, inner, at = decode_list_head(data, at)
    items = []
    for _ in range(count):
        if inner in (TRUE, FALSE):
            # Booleans in a list take a byte each.
            if data[at] > FALSE:
                raise ValueError(f"{data[at]} is no boolean")
            items.append(data[at] == TRUE)
            at += 1
        else:
            item, at = _decode_value(data, at, inner, depth)
            items.append(item)
    return items, at


def end_of_value(data: bytes, at: int, kind: int) -> int:
    """Find the position after a value without decoding it; errors as `decode_struct`, but for bytes that end inside the value."""
    if kind in (TRUE, FALSE):
        return at
    if kind in (_I16, I32, I64):
        return decode_varint(data, at, limit=_LONG)[1]
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind == BINARY:
        size, at = decode_varint(data, at)
        return at + size
    if kind in (LIST, _SET):
        count, inner, at = decode_list_head(data, at)
        for _ in range(count):
            # Booleans in a list take a byte each.
            at = end_of_value(data, at, _BYTE if inner in (TRUE, FALSE) else inner)
        return at
    if kind != STRUCT:
        raise ValueError(f"a value of unknown type {kind}")
    while head := data[at]:
        at += 1
        if not head >> 4:
            at = decode_varint(data, at, limit=_LONG)[1]
        at = end_of_value(data, at, head & 15)
    return at + 1


def decode_number(data: bytes, at: int) -> tuple[int, int]:
    """Decode an integer of any width; and the position after it."""
    value, at = decode_varint(data, at, limit=_LONG)
    return (value >> 1) ^ -(value & 1), at


@inlined
def read_varint(data: Any, at: Any) -> Any:
    """Read a varint: (value, position after it); position -1 when the bytes end or the number is longer than 64 bits."""
    value, shift = np.uint64(0), np.uint64(0)
    for i in range(10):
        if at + i >= len(data):
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[at + i])
        value |= (byte & np.uint64(127)) << shift
        if byte < 128:
            return np.int64(value), np.int64(at + i + 1)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def zigzag(value: Any) -> Any:
    """Decode the signed number of a varint."""
    return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1)


@helper
def read_field(data: Any, at: Any, last: Any) -> Any:
    """Read a field header: (field id, type, position after the header); type 0 at the end of a struct."""
    if at < 0 or at >= len(data):
        return last, np.int64(0), np.int64(-1)
    header = np.int64(data[at])
    if header == 0:
        return last, np.int64(0), np.int64(at + 1)
    if header & 15 == 0:
        return last, np.int64(0), np.int64(-1)
    if header >> 4:
        return last + (header >> 4), header & 15, np.int64(at + 1)
    value, after = read_varint(data, at + 1)
    return zigzag(value), header & 15, after


@helper
def read_list(data: Any, at: Any) -> Any:
    """Read a list header: (items, their type, position after the header); no more items than bytes."""
    if at < 0 or at >= len(data):
        return np.int64(0), np.int64(0), np.int64(-1)
    header = np.int64(data[at])
    count, after = header >> 4, np.int64(at + 1)
    if count == 15:
        count, after = read_varint(data, after)
    if after < 0 or count < 0 or count > len(data) - after:
        return np.int64(0), np.int64(0), np.int64(-1)
    return count, header & 15, after


@helper
def read_size(data: Any, at: Any) -> Any:
    """Read the size of a BINARY: (length, position of the first byte) of a value that is within the bytes."""
    size, after = read_varint(data, at)
    if after < 0 or size < 0 or size > len(data) - after:
        return np.int64(0), np.int64(-1)
    return size, after


@helper
def _skip_plain(data: Any, at: Any, kind: Any) -> Any:
    if kind <= FALSE:
        return at
    if kind == _BYTE:
        return at + 1 if at < len(data) else np.int64(-1)
    if kind <= I64:
        return read_varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8 if at + 8 <= len(data) else np.int64(-1)
    if kind == BINARY:
        size, after = read_size(data, at)
        return after + size if after >= 0 else np.int64(-1)
    return np.int64(-1)


@helper
def skip(data: Any, at: Any, kind: Any) -> Any:
    """Return the position after any value. Structs and lists by a stack of what is still to come."""
    left = np.empty(_MAX_DEPTH, np.int64)  # items to come in a list; -1: a struct
    kinds = np.empty(_MAX_DEPTH, np.int64)
    depth = 0
    while True:
        if kind in (LIST, _SET, STRUCT):
            if depth == _MAX_DEPTH:
                return np.int64(-1)
            if kind == STRUCT:
                left[depth] = -1
                kinds[depth] = 0
            else:
                count, inner, at = read_list(data, at)
                left[depth] = count
                # Booleans in a list take a byte each.
                kinds[depth] = _BYTE if inner in (TRUE, FALSE) else inner
            depth += 1
        else:
            at = _skip_plain(data, at, kind)
        if at < 0:
            return np.int64(-1)
        while depth:
            if left[depth - 1] < 0:
                _, kind, at = read_field(data, at, np.int64(0))
                if at < 0:
                    return np.int64(-1)
                if kind:
                    break
            elif left[depth - 1] > 0:
                left[depth - 1] -= 1
                kind = kinds[depth - 1]
                break
            depth -= 1
        if not depth:
            return at
