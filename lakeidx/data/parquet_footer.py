"""Timestamp annotations added to a Parquet footer that Arrow has written.

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
6 converted_type, 7 scale, 8 precision, 9 field_id, 10 logicalType. Thrift compact: a field header is
``delta << 4 | type``, integers are zigzag varints, a struct ends with 0.

source   parquet-format 2.10 ``parquet.thrift``; Thrift compact protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.varint import encode_varint
from lakeidx.errors import InternalError

_LENGTH = struct.Struct("<i")
_MAGIC = b"PAR1"

# Thrift compact type codes.
_TRUE, _FALSE, _I8, _I32, _BINARY, _LIST, _STRUCT = 1, 2, 3, 5, 8, 9, 12
_CONVERTED = {"ms": 9, "us": 10}
_UNIT_FIELD = {"ms": 1, "us": 2}
_PHYSICAL_INT64 = 2
_REPEATED = 2


@dataclass(frozen=True, slots=True)
class TimestampMark:
    """The annotation of one INT64 column: unit ``ms`` or ``us``; `utc` for TIMESTAMP WITH LOCAL TIME ZONE."""

    unit: str
    utc: bool


def annotate_timestamps(tail: bytes, marks: Mapping[int, TimestampMark]) -> bytes:
    """The end of a Parquet file with timestamp annotations put on some INT64 columns.

    tail     what the writer emitted at closing: ends with the footer, its length and the magic
    marks    by Parquet field id
    errors   InternalError when the footer is not one Arrow writes
    """
    if tail[-4:] != _MAGIC:
        raise InternalError(f"a Parquet file must end with {_MAGIC!r}, not {tail[-4:]!r}")
    (length,) = _LENGTH.unpack(tail[-8:-4])
    start = len(tail) - 8 - length
    footer = _annotate_footer(tail[start:-8], marks)
    return b"".join((tail[:start], footer, _LENGTH.pack(len(footer)), _MAGIC))


def _annotate_footer(footer: bytes, marks: Mapping[int, TimestampMark]) -> bytes:
    reader = _Compact(footer)
    count = _schema_elements(reader)
    out = [footer[: reader.pos]]
    for _ in range(count):
        begin = reader.pos
        element = reader.schema_element()
        mark = marks.get(element.field_id) if element.physical == _PHYSICAL_INT64 else None
        out.append(footer[begin : reader.pos] if mark is None else _timestamp_element(element, mark))
    out.append(footer[reader.pos :])
    return b"".join(out)


def _schema_elements(reader: _Compact) -> int:
    """Go to the first SchemaElement of a footer; gives how many there are."""
    field, kind = reader.field(0)
    if (field, kind) == (1, _I32):
        reader.skip(kind)
        field, kind = reader.field(field)
    if (field, kind) != (2, _LIST):
        raise InternalError("the footer does not begin with version and schema")
    count, item = reader.list_header()
    if item != _STRUCT:
        raise InternalError("the footer's schema is not a list of structs")
    return count


def flat_elements(footer: bytes) -> dict[str, bytes]:
    """Top-level column that is not nested -> its SchemaElement as it stands in a footer.

    footer   FileMetaData, without length and magic
    errors   InternalError or CorruptFileError when the schema is none that Parquet writers make
    """
    reader = _Compact(footer)
    count = _schema_elements(reader)
    out: dict[str, bytes] = {}
    # Elements that are still to come below each open group; the root is the outermost one.
    open_groups = [1]
    for _ in range(count):
        while open_groups and not open_groups[-1]:
            open_groups.pop()
        begin, depth = reader.pos, len(open_groups)
        element = reader.schema_element()
        if not open_groups:
            raise InternalError("the footer's schema has elements outside its root")
        open_groups[-1] -= 1
        if element.children:
            open_groups.append(element.children)
        elif depth == 2 and element.repetition != _REPEATED:
            out[element.name.decode("utf-8", "replace")] = footer[begin : reader.pos]
    return out


@dataclass(slots=True)
class _Element:
    physical: int = -1
    children: int = 0
    repetition: int = 0
    name: bytes = b""
    field_id: int = -1


def _timestamp_element(element: _Element, mark: TimestampMark) -> bytes:
    unit = bytes([_UNIT_FIELD[mark.unit] << 4 | _STRUCT, 0, 0])
    timestamp = bytes([1 << 4 | (_TRUE if mark.utc else _FALSE), 1 << 4 | _STRUCT]) + unit + b"\x00"
    logical = bytes([8 << 4 | _STRUCT]) + timestamp + b"\x00"
    return b"".join((
        bytes([1 << 4 | _I32]), _zigzag(_PHYSICAL_INT64),
        bytes([2 << 4 | _I32]), _zigzag(element.repetition),
        bytes([1 << 4 | _BINARY]), encode_varint(len(element.name)), element.name,
        bytes([2 << 4 | _I32]), _zigzag(_CONVERTED[mark.unit]),
        bytes([3 << 4 | _I32]), _zigzag(element.field_id),
        bytes([1 << 4 | _STRUCT]), logical, b"\x00",
    ))  # fmt: skip


class _Compact:
    """As much of Thrift's compact protocol as a schema list needs."""

    __slots__ = ("_cursor",)

    def __init__(self, data: bytes) -> None:
        self._cursor = Cursor(data)

    @property
    def pos(self) -> int:
        return self._cursor.pos

    def field(self, last: int) -> tuple[int, int]:
        """(field id, type); type 0 at the end of the struct."""
        header = self._cursor.u8()
        if header == 0:
            return last, 0
        delta = header >> 4
        return (last + delta if delta else self._cursor.zigzag()), header & 0x0F

    def list_header(self) -> tuple[int, int]:
        """(items, type of the items)."""
        header = self._cursor.u8()
        count = header >> 4
        return (self._cursor.varint() if count == 15 else count), header & 0x0F

    def skip(self, kind: int) -> None:
        if kind == _I8:
            self._cursor.skip(1)
        elif kind == _I32:
            self._cursor.varint()
        elif kind == _BINARY:
            self._cursor.skip(self._cursor.varint())
        elif kind == _STRUCT:
            field, inner = self.field(0)
            while inner:
                self.skip(inner)
                field, inner = self.field(field)
        elif kind not in (_TRUE, _FALSE):
            raise InternalError(f"Thrift type {kind} in a Parquet schema")

    def schema_element(self) -> _Element:
        cursor = self._cursor
        element = _Element()
        field, kind = self.field(0)
        while kind:
            if field == 1:
                element.physical = cursor.zigzag()
            elif field == 3:
                element.repetition = cursor.zigzag()
            elif field == 4:
                element.name = cursor.bytes(cursor.varint())
            elif field == 5:
                element.children = cursor.zigzag()
            elif field == 9:
                element.field_id = cursor.zigzag()
            else:
                self.skip(kind)
            field, kind = self.field(field)
        return element


def _zigzag(n: int) -> bytes:
    return encode_varint(n << 1 if n >= 0 else (-n << 1) - 1)
