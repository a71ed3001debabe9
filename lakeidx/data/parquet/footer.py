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
from itertools import count
from typing import Any, TypeAlias

from lakeidx.data.parquet.thrift import (
    BINARY,
    FALSE,
    I32,
    STRUCT,
    TRUE,
    decode_list_head,
    decode_number,
    decode_struct,
    end_of_value,
    field,
    list_of,
    thrift_number,
    thrift_text,
)
from lakeidx.errors import CorruptFileError, InternalError

_LENGTH = struct.Struct("<i")
_MAGIC = b"PAR1"

_CONVERTED = {"ms": 9, "us": 10}
_UNIT_FIELD = {"ms": 1, "us": 2}
_PHYSICAL_INT64 = 2
#: What becomes of a field's value; None: it goes.
_Change: TypeAlias = Callable[[bytes], bytes] | None


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
    footer = change_metadata(tail[start:-8], marks, unbounded)
    return b"".join((tail[:start], footer, _LENGTH.pack(len(footer)), _MAGIC))


def change_metadata(footer: bytes, marks: Mapping[int, TimestampMark], unbounded: Collection[int]) -> bytes:
    """Change a FileMetaData as `change_footer` does."""
    changes: dict[int, _Change] = {}
    if marks:
        changes[2] = lambda elements: _annotated(elements, marks)
    if unbounded:
        changes[4] = lambda groups: _each(groups, lambda _, group: _row_group(group, unbounded))
    try:
        return _struct(footer, changes)
    except (IndexError, ValueError, CorruptFileError) as error:
        raise InternalError(f"the footer is none that Arrow writes: {error}") from error


def _annotated(elements: bytes, marks: Mapping[int, TimestampMark]) -> bytes:
    """Annotate leaves of a schema."""
    leaves, left = count(), dict(marks)

    def changed(_: int, element: bytes) -> bytes:
        found, _ = decode_struct(element, 0)
        if found.get((5, I32), 0) > 0:
            return element
        leaf = next(leaves)
        mark = left.pop(leaf, None)
        if mark is None:
            return element
        if found.get((1, I32)) != _PHYSICAL_INT64:
            raise InternalError(f"leaf column {leaf} of the footer is not INT64")
        return _timestamp_element(found, mark)

    out = _each(elements, changed)
    if left:
        raise InternalError(f"leaf column {min(left)} of the footer is not INT64")
    return out


def _timestamp_element(element: Mapping[tuple[int, ...], Any], mark: TimestampMark) -> bytes:
    unit = field(_UNIT_FIELD[mark.unit], STRUCT) + b"\x00\x00"
    timestamp = field(1, TRUE if mark.utc else FALSE) + field(1, STRUCT) + unit + b"\x00"
    logical = field(8, STRUCT) + timestamp + b"\x00"
    return b"".join((
        field(1, I32), thrift_number(_PHYSICAL_INT64), field(2, I32), thrift_number(element[3, I32]),
        field(1, BINARY), thrift_text(element[4, BINARY]), field(2, I32), thrift_number(_CONVERTED[mark.unit]),
        field(3, I32), thrift_number(element.get((9, I32), -1)), field(1, STRUCT), logical, b"\x00",
    ))  # fmt: skip


def _row_group(group: bytes, leaves: Collection[int]) -> bytes:
    return _struct(group, {1: lambda chunks: _each(chunks, lambda i, c: _chunk(c) if i in leaves else c)})


def _chunk(chunk: bytes) -> bytes:
    return _struct(chunk, {3: lambda meta: _struct(meta, {12: _counts}), 6: None, 7: None})


def _counts(statistics: bytes) -> bytes:
    return _struct(statistics, dict.fromkeys((1, 2, 4, 5, 6, 7, 8)))


def _each(items: bytes, change: Callable[[int, bytes], bytes]) -> bytes:
    """Change the structs of a list."""
    number, kind, at = decode_list_head(items, 0)
    out = []
    for i in range(number):
        end = end_of_value(items, at, kind)
        out.append(change(i, items[at:end]))
        at = end
    return list_of(out, kind)


def _struct(data: bytes, changes: Mapping[int, _Change]) -> bytes:
    """Change some fields of a struct; the numbers of those that follow one that goes are counted anew."""
    out: list[bytes] = []
    at = last = written = 0
    final = max(changes, default=0)
    while data[at]:
        if last >= final and last == written:
            # Nothing changes any more.
            return b"".join((*out, data[at:]))
        head, at = data[at], at + 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = decode_number(data, at)
        kind = head & 15
        end = end_of_value(data, at, kind)
        change = changes.get(last, bytes)
        if change is not None:
            delta = last - written
            out.append(field(delta, kind) if 0 < delta < 16 else bytes([kind]) + thrift_number(last))
            out.append(change(data[at:end]))
            written = last
        at = end
    return b"".join((*out, b"\x00"))
