"""Changes to a Parquet footer that Arrow has written: timestamp annotations, and bounds of columns with NaN.

Paimon stores TIMESTAMP(7..9) as INT96 beside INT64 timestamps of lower precision. Arrow's writer knows INT96 for all
timestamps of a file or for none, so in a file that needs INT96 the other timestamps go through it as plain INT64, and
the footer gets their annotation afterwards. Only the schema list in the footer changes; everything else is copied.

==========  ================================================================================================
bytes       content of what the writer emits when it closes
==========  ================================================================================================
any         bloom filters, page indexes
n           FileMetaData in Thrift compact form: field 1 version, field 2 list of SchemaElement, field 3 ...
4           n as i32 **little**-endian
4           ``PAR1``
==========  ================================================================================================

SchemaElement (fields in order, absent ones left out): 1 type, 2 type_length, 3 repetition, 4 name, 5 num_children,
6 converted_type, 7 scale, 8 precision, 9 field_id, 10 logicalType.

source   parquet-format 2.10 ``parquet.thrift``

Bounds of columns with NaN, taken out of a Parquet footer that Arrow has written.

Arrow leaves NaN out of a column's smallest and largest value, as Parquet wants it. Readers for whom NaN is above all numbers (Spark
and Java Paimon, which hand ``d > 100`` on to parquet-java) then skip row groups and pages whose numbers are smaller, NaN and
all. Files of parquet-java have no bounds there, and neither do those of lakeidx: null counts stay, the index of pages has none.

==============  ==========================================================================================
struct          fields that matter here
==============  ==========================================================================================
FileMetaData    4 row_groups
RowGroup        1 columns
ColumnChunk     3 meta_data, 6 column_index_offset, 7 column_index_length
ColumnMetaData  12 statistics
Statistics      3 null_count; all others go
==============  ==========================================================================================

source   parquet-format 2.10 ``parquet.thrift``; org.apache.parquet.column.statistics.DoubleStatistics
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import helper, kernel
from lakeidx.data.parquet.thrift import (
    BINARY,
    FALSE,
    I32,
    LIST,
    STRUCT,
    TRUE,
    field,
    list_of,
    read_field,
    read_list,
    read_size,
    read_varint,
    skip,
    thrift_number,
    thrift_text,
    zigzag,
)
from lakeidx.errors import InternalError

_LENGTH = struct.Struct("<i")
_MAGIC = b"PAR1"

_CONVERTED = {"ms": 9, "us": 10}
_UNIT_FIELD = {"ms": 1, "us": 2}
_PHYSICAL_INT64 = 2


@dataclass(frozen=True, slots=True)
class TimestampMark:
    """The annotation of one INT64 column: unit ``ms`` or ``us``; `utc` for TIMESTAMP WITH LOCAL TIME ZONE."""

    unit: str
    utc: bool


def change_footer(tail: bytes, marks: Mapping[int, TimestampMark], unbounded: Collection[int] = ()) -> bytes:
    """Add timestamp annotations to some INT64 columns in the footer of a Parquet file, and take the bounds of others out.

    tail       what the writer emitted at closing: ends with the footer, its length and the magic
    marks      by number of the leaf column, counted through all columns; field ids of nested columns may come twice
    unbounded  numbers of leaf columns with NaN: see `lakeidx.data.parquet.footer`
    errors     InternalError when the footer is not one Arrow writes, or a marked leaf is not INT64
    """
    if tail[-4:] != _MAGIC:
        raise InternalError(f"a Parquet file must end with {_MAGIC!r}, not {tail[-4:]!r}")
    (length,) = _LENGTH.unpack(tail[-8:-4])
    start = len(tail) - 8 - length
    footer = _annotate_footer(tail[start:-8], marks) if marks else tail[start:-8]
    if unbounded:
        footer = without_bounds(footer, unbounded)
    return b"".join((tail[:start], footer, _LENGTH.pack(len(footer)), _MAGIC))


def _annotate_footer(footer: bytes, marks: Mapping[int, TimestampMark]) -> bytes:
    out, done = [], 0
    leaves = [element for element in _schema_elements(footer) if element.children <= 0]
    for leaf, mark in sorted(marks.items()):
        element = leaves[leaf] if leaf < len(leaves) else None
        if element is None or element.physical != _PHYSICAL_INT64:
            raise InternalError(f"leaf column {leaf} of the footer is not INT64")
        out += [footer[done : element.start], _timestamp_element(element, mark)]
        done = element.end
    return b"".join((*out, footer[done:]))


class _Element(NamedTuple):
    start: int
    end: int
    physical: int
    repetition: int
    children: int
    field_id: int
    name: bytes


def _schema_elements(footer: bytes) -> list[_Element]:
    # An element that a schema needs takes at least the name's header, its length and the end.
    table = np.empty((len(footer) // 3 + 1, 8), np.int64)
    count = _walk_schema(frozen(np.frombuffer(footer, np.uint8)), table)
    if count < 0:
        raise InternalError("the footer does not begin with version and schema")
    return [_Element._make((*row[:6], footer[row[6] : row[6] + row[7]])) for row in table[:count].tolist()]


@helper
def _schema_element(data: Any, at: Any, out: Any) -> Any:
    last, kind = np.int64(0), np.int64(STRUCT)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 4 and kind == BINARY:
            size, at = read_size(data, at)
            out[6] = at
            out[7] = size
            at = at + size if at >= 0 else at
        elif (last == 1 or last == 3 or last == 5 or last == 9) and kind == I32:
            value, at = read_varint(data, at)
            out[2 if last == 1 else 3 if last == 3 else 4 if last == 5 else 5] = zigzag(value)
        else:
            at = skip(data, at, kind)


@kernel
def _walk_schema(data: Any, out: Any) -> Any:
    """Fill out int64[n, 8] with the SchemaElements of FileMetaData; their number, or -1 for damage.

    out   start, end, type, repetition, children, field id, position and length of the name; -1 for a number left out
    """
    last, kind, at = read_field(data, np.int64(0), np.int64(0))
    if last == 1 and kind == I32:
        at = skip(data, at, kind)
        last, kind, at = read_field(data, at, last)
    if at < 0 or last != 2 or kind != LIST:
        return np.int64(-1)
    count, inner, at = read_list(data, at)
    if at < 0 or inner != STRUCT or count > len(out):
        return np.int64(-1)
    for i in range(count):
        out[i] = -1
        out[i, 6] = out[i, 7] = 0
        out[i, 0] = at
        at = _schema_element(data, at, out[i])
        if at < 0:
            return np.int64(-1)
        out[i, 1] = at
    return count


def _timestamp_element(element: _Element, mark: TimestampMark) -> bytes:
    unit = field(_UNIT_FIELD[mark.unit], STRUCT) + b"\x00\x00"
    timestamp = field(1, TRUE if mark.utc else FALSE) + field(1, STRUCT) + unit + b"\x00"
    logical = field(8, STRUCT) + timestamp + b"\x00"
    return b"".join((
        field(1, I32), thrift_number(_PHYSICAL_INT64), field(2, I32), thrift_number(element.repetition),
        field(1, BINARY), thrift_text(element.name), field(2, I32), thrift_number(_CONVERTED[mark.unit]),
        field(3, I32), thrift_number(element.field_id), field(1, STRUCT), logical, b"\x00",
    ))  # fmt: skip


_VARINTS = (4, 5, 6)
_BYTE, _DOUBLE, _BINARY, _SET = 3, 7, 8, 10
#: What becomes of a field's value; None: it goes.
_Change: TypeAlias = Callable[[bytes], bytes] | None


def without_bounds(footer: bytes, leaves: Collection[int]) -> bytes:
    """Take the bounds of some leaf columns out of a FileMetaData.

    leaves   numbers of the columns, counted through all
    errors   InternalError when the footer is none that Arrow writes
    """
    try:
        return _struct(footer, {4: lambda groups: _each(groups, lambda _, group: _row_group(group, leaves))})
    except IndexError as error:
        raise InternalError("the footer ends before its row groups do") from error


def _row_group(group: bytes, leaves: Collection[int]) -> bytes:
    return _struct(group, {1: lambda chunks: _each(chunks, lambda i, c: _chunk(c) if i in leaves else c)})


def _chunk(chunk: bytes) -> bytes:
    return _struct(chunk, {3: lambda meta: _struct(meta, {12: _counts}), 6: None, 7: None})


def _counts(statistics: bytes) -> bytes:
    return _struct(statistics, dict.fromkeys((1, 2, 4, 5, 6, 7, 8)))


def _each(items: bytes, change: Callable[[int, bytes], bytes]) -> bytes:
    """Change the structs of a list."""
    count, kind, at = _list_head(items, 0)
    out = []
    for i in range(count):
        end = _end(items, at, kind)
        out.append(change(i, items[at:end]))
        at = end
    return list_of(out, kind)


def _struct(data: bytes, changes: Mapping[int, _Change]) -> bytes:
    """Change some fields of a struct; the numbers of those that follow one that goes are counted anew."""
    out, at, last, written = [], 0, 0, 0
    while data[at]:
        head, at = data[at], at + 1
        if head >> 4:
            last += head >> 4
        else:
            found, at = _varint(data, at)
            last = (found >> 1) ^ -(found & 1)
        kind = head & 15
        end = _end(data, at, kind)
        change = changes.get(last, bytes)
        if change is not None:
            delta = last - written
            out.append(field(delta, kind) if 0 < delta < 16 else bytes([kind]) + thrift_number(last))
            out.append(change(data[at:end]))
            written = last
        at = end
    return b"".join((*out, b"\x00"))


def _end(data: bytes, at: int, kind: int) -> int:
    """Find the end of a value."""
    if kind <= FALSE:
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if kind in _VARINTS:
        return _varint(data, at)[1]
    if kind == _BINARY:
        size, at = _varint(data, at)
        return at + size
    if kind in (LIST, _SET):
        count, inner, at = _list_head(data, at)
        for _ in range(count):
            # Booleans in a list take a byte each.
            at = _end(data, at, _BYTE if inner <= FALSE else inner)
        return at
    if kind != STRUCT:
        raise InternalError(f"the footer has a value of unknown type {kind}")
    while data[at]:
        head, at = data[at], at + 1
        if not head >> 4:
            at = _varint(data, at)[1]
        at = _end(data, at, head & 15)
    return at + 1


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Read (items, their type, position after the header)."""
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _varint(data, at)
    return count, head & 15, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
