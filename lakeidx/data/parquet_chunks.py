"""What a Parquet footer says of every column chunk: size, null count and bounds, read without Arrow's metadata objects.

Those objects end the process on some damaged footers (a C++ exception that nothing catches); this reader checks every
length against the bytes there are. It walks Thrift's compact form: a field header is ``delta << 4 | type`` (delta 0: the field
id follows as a zigzag varint), numbers are zigzag varints, a struct ends with 0.

====================  ================================================================================================
struct                fields used
====================  ================================================================================================
FileMetaData          4 row_groups
RowGroup              1 columns
ColumnChunk           3 meta_data, 4 offset_index_offset, 5 offset_index_length
ColumnMetaData        1 type, 2 encodings, 4 codec, 5 num_values, 7 total_compressed_size, 9 data_page_offset,
                      11 dictionary_page_offset, 12 statistics
Statistics            3 null_count, 5 max_value, 6 min_value (byte order of values: little endian; FIXED decimals big)
====================  ================================================================================================

source   parquet-format 2.10 ``parquet.thrift``; Thrift compact protocol
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from lakeidx.codec.jit import frozen, kernel
from lakeidx.data.parquet_pages import ChunkPlace
from lakeidx.errors import CorruptFileError

_VALUES, _BYTES, _NULLS, _MIN_AT, _MIN_SIZE, _MAX_AT, _MAX_SIZE, _ENCODINGS = range(8)
_TYPE, _CODEC, _DATA_AT, _DICTIONARY_AT, _INDEX_AT, _INDEX_SIZE = range(8, 14)
_FORMATS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_MAX_DEPTH = 64
# Bits of the encodings by their numbers: PLAIN_DICTIONARY 2 and RLE_DICTIONARY 8; RLE 3 and BIT_PACKED 4 are those of levels.
_DICTIONARY = 1 << 2 | 1 << 8
_LEVELS = 1 << 3 | 1 << 4


@dataclass(frozen=True, slots=True)
class ChunkStats:
    """Statistics of one column chunk.

    values      rows, nulls included (of a column that is not nested)
    null_count  None: the footer does not say
    low, high   bounds in physical form: int, float, bool or bytes; None: the footer has none
    """

    values: int
    null_count: int | None
    low: Any
    high: Any


class FooterChunks:
    """The column chunks of one footer.

    footer    FileMetaData in Thrift compact form, without length and magic
    errors    CorruptFileError naming the file
    """

    def __init__(self, footer: bytes, groups: int, columns: int, path: str) -> None:
        self._footer = footer
        self._path = path
        self._table = np.full((groups, columns, 14), -1, np.int64)
        at = walk_footer(frozen(np.frombuffer(footer, np.uint8)), self._table)
        if at >= 0:
            raise CorruptFileError("the Parquet footer is damaged", path=path, offset=at)

    def compressed_bytes(self, group: int, column: int) -> int:
        """Bytes of a chunk in the file."""
        return max(0, int(self._table[group, column, _BYTES]))

    def dictionary_only(self, column: int) -> bool:
        """True when surely every page of a column refers to a dictionary, in all row groups; False: nobody knows."""
        used = self._table[:, column, _ENCODINGS]
        if not len(used) or (used < 0).any():
            return False
        return bool((used & _DICTIONARY).all()) and not bool((used & ~(_DICTIONARY | _LEVELS)).any())

    def place(self, group: int, column: int, element: bytes, name: str) -> ChunkPlace | None:
        """Where a chunk and its offset index lie; None when the footer does not say."""
        row = self._table[group, column].tolist()
        if min(row[i] for i in (_TYPE, _CODEC, _DATA_AT, _INDEX_AT, _INDEX_SIZE, _BYTES)) < 0:
            return None
        # Some writers put 0 where there is no dictionary.
        start = row[_DICTIONARY_AT] if 0 < row[_DICTIONARY_AT] < row[_DATA_AT] else row[_DATA_AT]
        return ChunkPlace(element, name, row[_TYPE], row[_CODEC], start, row[_BYTES], row[_INDEX_AT], row[_INDEX_SIZE])

    def stats(self, group: int, column: int, physical_type: str) -> ChunkStats:
        """Statistics of a chunk; bounds whose length is not that of the type are left out."""
        row = self._table[group, column].tolist()
        low = self._value(row[_MIN_AT], row[_MIN_SIZE], physical_type)
        high = self._value(row[_MAX_AT], row[_MAX_SIZE], physical_type)
        if low is None or high is None:
            low = high = None
        return ChunkStats(row[_VALUES], row[_NULLS] if row[_NULLS] >= 0 else None, low, high)

    def _value(self, at: int, size: int, physical_type: str) -> Any:
        if at < 0:
            return None
        raw = self._footer[at : at + size]
        form = _FORMATS.get(physical_type)
        if form is None:
            return raw
        return struct.unpack(form, raw)[0] if struct.calcsize(form) == size else None


@numba.njit(inline="always")
def _varint(data: Any, at: Any) -> Any:
    """(value, position after it); position -1 when the bytes end or the number is longer than 64 bits."""
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


@numba.njit(inline="always")
def _zigzag(value: Any) -> Any:
    return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1)


@numba.njit
def _field(data: Any, at: Any, last: Any) -> Any:
    """(field id, type, position after the header); type 0 at the end of a struct, position -1 on damage."""
    if at < 0 or at >= len(data):
        return last, np.int64(0), np.int64(-1)
    header = np.int64(data[at])
    if header == 0:
        return last, np.int64(0), np.int64(at + 1)
    if header >> 4:
        return last + (header >> 4), header & 15, np.int64(at + 1)
    value, after = _varint(data, at + 1)
    return _zigzag(value), header & 15, after


@numba.njit
def _list(data: Any, at: Any) -> Any:
    """(items, their type, position after the header); no more items than bytes."""
    if at < 0 or at >= len(data):
        return np.int64(0), np.int64(0), np.int64(-1)
    header = np.int64(data[at])
    count, after = header >> 4, np.int64(at + 1)
    if count == 15:
        count, after = _varint(data, after)
    if after < 0 or count < 0 or count > len(data) - after:
        return np.int64(0), np.int64(0), np.int64(-1)
    return count, header & 15, after


@numba.njit
def _skip_plain(data: Any, at: Any, kind: Any) -> Any:
    """Position after a value that holds no other; -1 on damage."""
    if kind <= 2:
        return at
    if kind == 3:
        return at + 1 if at < len(data) else np.int64(-1)
    if kind <= 6:
        return _varint(data, at)[1]
    if kind == 7:
        return at + 8 if at + 8 <= len(data) else np.int64(-1)
    if kind == 8:
        size, after = _varint(data, at)
        if after < 0 or size < 0 or size > len(data) - after:
            return np.int64(-1)
        return after + size
    return np.int64(-1)


@numba.njit
def _skip(data: Any, at: Any, kind: Any) -> Any:
    """Position after any value; -1 on damage. Structs and lists by a stack of what is still to come."""
    left = np.empty(_MAX_DEPTH, np.int64)  # items to come in a list; -1: a struct
    kinds = np.empty(_MAX_DEPTH, np.int64)
    depth = 0
    while True:
        if kind == 9 or kind == 10 or kind == 12:
            if depth == _MAX_DEPTH:
                return np.int64(-1)
            if kind == 12:
                left[depth] = -1
                kinds[depth] = 0
            else:
                count, inner, at = _list(data, at)
                left[depth] = count
                # Booleans in a list take a byte each.
                kinds[depth] = 3 if inner == 1 or inner == 2 else inner
            depth += 1
        else:
            at = _skip_plain(data, at, kind)
        if at < 0:
            return np.int64(-1)
        while depth:
            if left[depth - 1] < 0:
                _, kind, at = _field(data, at, np.int64(0))
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


@numba.njit
def _statistics(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = _field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 3 and kind == 6:
            value, at = _varint(data, at)
            out[2] = _zigzag(value)
        elif (last == 5 or last == 6) and kind == 8:
            size, after = _varint(data, at)
            if after < 0 or size < 0 or size > len(data) - after:
                return np.int64(-1)
            place = 5 if last == 5 else 3
            out[place] = after
            out[place + 1] = size
            at = after + size
        else:
            at = _skip(data, at, kind)


@numba.njit
def _column_meta(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = _field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 2 and kind == 9:
            count, inner, at = _list(data, at)
            if at < 0 or inner != 5:
                return np.int64(-1)
            used = np.int64(0)
            for _ in range(count):
                value, at = _varint(data, at)
                if at < 0:
                    return np.int64(-1)
                # Encodings beyond those known count as one that is not a dictionary.
                number = _zigzag(value)
                used |= np.int64(1) << (number if 0 <= number < 32 else np.int64(0))
            out[7] = used
        elif (last == 5 or last == 7 or last == 9 or last == 11) and kind == 6:
            value, at = _varint(data, at)
            out[0 if last == 5 else 1 if last == 7 else 10 if last == 9 else 11] = _zigzag(value)
        elif (last == 1 or last == 4) and kind == 5:
            value, at = _varint(data, at)
            out[8 if last == 1 else 9] = _zigzag(value)
        elif last == 12 and kind == 12:
            at = _statistics(data, at, out)
        else:
            at = _skip(data, at, kind)


@numba.njit
def _column_chunk(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = _field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 3 and kind == 12:
            at = _column_meta(data, at, out)
        elif (last == 4 and kind == 6) or (last == 5 and kind == 5):
            value, at = _varint(data, at)
            out[12 if last == 4 else 13] = _zigzag(value)
        else:
            at = _skip(data, at, kind)


@numba.njit
def _row_group(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = _field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 1 and kind == 9:
            count, inner, at = _list(data, at)
            if at < 0 or inner != 12 or count != out.shape[0]:
                return np.int64(-1)
            for c in range(count):
                at = _column_chunk(data, at, out[c])
                if at < 0:
                    return at
        else:
            at = _skip(data, at, kind)


@kernel
def walk_footer(data: Any, out: Any) -> Any:
    """Fill out int64[groups, columns, 14] (see the names above); the position near which the footer is damaged, or -1."""
    at, last = np.int64(0), np.int64(0)
    while True:
        begin = at
        last, kind, at = _field(data, at, last)
        if at < 0:
            return begin
        if kind == 0:
            return np.int64(-1)
        if last == 4 and kind == 9:
            count, inner, at = _list(data, at)
            if at < 0 or inner != 12 or count != out.shape[0]:
                return begin
            for g in range(count):
                at = _row_group(data, at, out[g])
                if at < 0:
                    return begin
        else:
            at = _skip(data, at, kind)
            if at < 0:
                return begin
