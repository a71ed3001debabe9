"""Bounds of columns with NaN, taken out of a Parquet footer that Arrow has written.

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

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from lakeidx.data.parquet.thrift import FALSE, LIST, STRUCT, field, list_of, number
from lakeidx.errors import InternalError

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
            out.append(field(delta, kind) if 0 < delta < 16 else bytes([kind]) + number(last))
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
