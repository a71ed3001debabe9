"""Size, null count and bounds of every column chunk of a Parquet footer, read without Arrow's metadata objects.

Those objects abort the process on some corrupt footers (a C++ exception that nothing catches); this reader checks every
length against the bytes there are.

====================  ================================================================================================
struct                fields used
====================  ================================================================================================
FileMetaData          4 row_groups
RowGroup              1 columns
ColumnChunk           3 meta_data, 4 offset_index_offset, 5 offset_index_length, 6 column_index_offset, 7 column_index_length
ColumnMetaData        1 type, 2 encodings, 4 codec, 5 num_values, 6 total_uncompressed_size, 7 total_compressed_size,
                      9 data_page_offset, 11 dictionary_page_offset, 12 statistics
Statistics            3 null_count, 5 max_value, 6 min_value (byte order of values: little endian; FIXED decimals big)
====================  ================================================================================================

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.arrays import frozen
from lakeidx.codec.values import arrow_int_to_timestamp, decimal_of
from lakeidx.errors import CorruptFileError, LakeIdxError, UnavailableError
from lakeidx.storage.range_file import RemoteInput
from lakeidx.types import STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_VALUES, _BYTES, _NULLS, _MIN_AT, _MIN_SIZE, _MAX_AT, _MAX_SIZE, _ENCODINGS = range(8)
_TYPE, _CODEC, _DATA_AT, _DICTIONARY_AT, _INDEX_AT, _INDEX_SIZE, _PLAIN_BYTES, _BOUNDS_AT, _BOUNDS_SIZE = range(8, 17)
_WIDTH = 17
# Bits of the encodings by their numbers: PLAIN_DICTIONARY 2 and RLE_DICTIONARY 8; RLE 3 and BIT_PACKED 4 are those of levels;
# DELTA_LENGTH_BYTE_ARRAY 6 and DELTA_BYTE_ARRAY 7.
_DICTIONARY = 1 << 2 | 1 << 8
_LEVELS = 1 << 3 | 1 << 4
_DELTA_TEXTS = 1 << 6 | 1 << 7


_MAGIC = b"PAR1"
_LENGTH = struct.Struct("<I")
_TAIL_BYTES = 1 << 16
# Local files up to this size are read in the caller's thread: to fetch ahead, Arrow wakes others, which takes longer.
_SMALL_BYTES = 1 << 17


_FORMATS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_COUNT_ONLY_ROOTS = frozenset({Root.BINARY, Root.VARBINARY})


_Internal: TypeAlias = Callable[[Any, DataType], Any]


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a column chunk.

    start, size   of the chunk, dictionary page included
    index_at, index_size     of its offset index
    bounds_at, bounds_size   of its column index; -1: it has none
    """

    start: int
    size: int
    index_at: int
    index_size: int
    bounds_at: int
    bounds_size: int


class ChunkStats(NamedTuple):
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
        from lakeidx.data.parquet.walk_footer import walk_footer

        self._footer = footer
        self._path = path
        self._table = np.empty((groups, columns, _WIDTH), np.int64)
        at = walk_footer(frozen(np.frombuffer(footer, np.uint8)), self._table)
        if at >= 0:
            raise CorruptFileError("the Parquet footer is damaged", path=path, offset=at)
        #: Version and schema, as the footer has them: alike in files that one writer wrote in one schema.
        self.schema = bytes(footer[: -1 - at])

    def compressed_bytes(self, group: int, column: int) -> int:
        """Return the bytes of a chunk in the file."""
        return max(0, int(self._table[group, column, _BYTES]))

    def plain_bytes(self, group: int, column: int) -> int:
        """Return the uncompressed bytes of a chunk; -1 when the footer does not have them."""
        return int(self._table[group, column, _PLAIN_BYTES])

    def codec(self, group: int, column: int) -> int:
        """Return the number of a chunk's compression codec; -1 when the footer does not have it."""
        return int(self._table[group, column, _CODEC])

    def encodings(self, group: int, column: int) -> list[int]:
        """Return the numbers of a chunk's encodings, ascending."""
        used = int(self._table[group, column, _ENCODINGS])
        return [] if used < 0 else [i for i in range(used.bit_length()) if used >> i & 1]

    def dictionary_only(self) -> list[bool]:
        """Return of each column True when surely every page of it refers to a dictionary, in all row groups; False: not known."""
        used = self._table[:, :, _ENCODINGS]
        only = (used >= 0) & (used & _DICTIONARY != 0) & (used & ~(_DICTIONARY | _LEVELS) == 0)
        return only.all(axis=0).tolist() if len(used) else [False] * used.shape[1]

    def delta_texts(self) -> list[bool]:
        """Return of each column True when some page of it may hold texts as differences: Arrow makes no dictionaries of those."""
        used = self._table[:, :, _ENCODINGS]
        found: list[bool] = ((used >= 0) & (used & _DELTA_TEXTS != 0)).any(axis=0).tolist()
        return found

    def extent(self, group: int, column: int) -> tuple[int, int] | None:
        """Return (first byte, bytes) of a chunk, dictionary page included; None when the footer does not have them."""
        data, dictionary, size = self._table[group, column, [_DATA_AT, _DICTIONARY_AT, _BYTES]].tolist()
        if min(data, size) < 0:
            return None
        # Some writers put 0 where there is no dictionary.
        return (dictionary if 0 < dictionary < data else data), size

    def place(self, group: int, column: int) -> ChunkPlace | None:
        """Return the byte ranges of a chunk and its page index; None when the footer does not have them."""
        row, extent = self._table[group, column], self.extent(group, column)
        index = row[[_INDEX_AT, _INDEX_SIZE, _BOUNDS_AT, _BOUNDS_SIZE]].tolist()
        return None if extent is None or min(index[:2]) < 0 else ChunkPlace(*extent, *index)

    def stats(self, group: int, column: int, physical_type: str) -> ChunkStats:
        """Return the statistics of a chunk; bounds whose length is not that of the type are left out."""
        row = self._table[group, column].tolist()
        low = self._value(row[_MIN_AT], row[_MIN_SIZE], physical_type)
        high = self._value(row[_MAX_AT], row[_MAX_SIZE], physical_type)
        if low is None or high is None:
            low = high = None
        return ChunkStats(row[_VALUES], row[_NULLS] if row[_NULLS] >= 0 else None, low, high)

    def _value(self, at: int, size: int, physical_type: str) -> Any:
        return None if at < 0 else plain_value(self._footer[at : at + size], physical_type)


@dataclass(frozen=True, slots=True)
class OpenFooter:
    """A file's footer.

    data       FileMetaData in Thrift compact form, without length and magic
    metadata   of it only the schema, key-value pairs and the sizes of row groups may be used: the objects for column chunks abort
               the process on some corrupt bytes
    leaves     the leaf columns
    chunks     what it says of column chunks
    whole      the file, open: when it is so small that all of it was read with the footer
    """

    data: bytes
    metadata: pq.FileMetaData
    leaves: list[pq.ColumnSchema]
    chunks: FooterChunks
    whole: pq.ParquetFile | None


def _read_footer(stream: pa.NativeFile, path: str) -> tuple[bytes, bytes]:
    """Read FileMetaData as stored in the file, and the end of the file with it: of a file below 64 kB the whole.

    cost   one read for footers below 64 kB
    """
    size = stream.size()
    if size < 12:
        raise CorruptFileError(f"{size} bytes are too few for a Parquet file", path=path)
    tail = stream.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    if tail[-4:] != _MAGIC:
        raise CorruptFileError(
            f"not a Parquet file: expected {_MAGIC!r} at the end, found {tail[-4:]!r}", path=path, offset=size - 4
        )
    (length,) = _LENGTH.unpack(tail[-8:-4])
    if length > size - 12:
        raise CorruptFileError(f"a footer of {length} bytes in a file of {size}", path=path, offset=size - 8)
    if length > len(tail) - 8:
        tail = stream.read_at(length + 8, size - 8 - length)
    return tail[-8 - length : -8], tail


def open_footer(stream: pa.NativeFile, path: str) -> OpenFooter:
    """Read a file's footer.

    errors   CorruptFileError; what Arrow raises for bytes it cannot read (see `row_groups.damage_of`)
    """
    footer, end = _read_footer(stream, path)
    # The end of a file is read as a file. `pq.read_metadata` takes half as long again, for a look whether it was given a path.
    file = open_rows(pa.BufferReader(end))
    metadata = file.metadata
    # Metadata that was asked for its schema is held by it, and so stays until garbage is collected.
    schema = pq.ParquetSchema(metadata)
    leaves = [schema.column(i) for i in range(metadata.num_columns)]
    chunks = FooterChunks(footer, metadata.num_row_groups, len(leaves), path)
    return OpenFooter(footer, metadata, leaves, chunks, file if len(end) == stream.size() else None)


def open_rows(
    stream: pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[str] | None = None,
) -> pq.ParquetFile:
    """Open a file for its rows; checksums of pages are verified. Where reads are requests, `hold_columns` comes before each.

    metadata       of its footer, when that has been read
    dictionaries   columns that are read as dictionary arrays
    """
    near = isinstance(stream, RemoteInput | pa.BufferReader)
    near = near or (isinstance(stream, pa.OSFile) and stream.size() <= _SMALL_BYTES)
    return pq.ParquetFile(
        stream, metadata=metadata, read_dictionary=dictionaries, pre_buffer=not near, page_checksum_verification=True
    )


def hold_columns(
    stream: pa.NativeFile,
    leaves: Sequence[pq.ColumnSchema],
    chunks: FooterChunks,
    groups: Sequence[int],
    names: Sequence[str],
) -> None:
    """Fetch columns of row groups side by side where reads are requests, and have them in memory for the reads that follow."""
    if not isinstance(stream, RemoteInput):
        return
    # A column's name may hold dots: some that nobody asked for do no harm.
    paths = (*(f"{name}." for name in names),)
    wanted = [i for i, leaf in enumerate(leaves) if f"{leaf.path}.".startswith(paths)]
    extents = [chunks.extent(g, i) for g in groups for i in wanted]
    stream.ranges.hold([e for e in extents if e is not None and e[0] >= 0 and e[0] + e[1] <= stream.ranges.size()])


def plain_value(raw: bytes, physical_type: str) -> Any:
    """Decode a bound as Parquet stores values: a number, or bytes; None for a number of another length."""
    form = _FORMATS.get(physical_type)
    if form is None:
        return raw
    whole = struct.calcsize(form) == len(raw) and (physical_type != "BOOLEAN" or raw[0] <= 1)
    return struct.unpack(form, raw)[0] if whole else None


class FooterStats(NamedTuple):
    """Statistics of one column over one file.

    minimum, maximum  internal values (see ``lakeidx.types``); None: not known, or all values are null
    null_count        None: not known
    """

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None

    @property
    def is_none(self) -> bool:
        """True when nothing is known: dense statistics leave the column out."""
        return self.minimum is None and self.maximum is None and self.null_count is None


NO_STATS = FooterStats()


@dataclass(frozen=True, slots=True)
class FloatMarks:
    """Special values of a FLOAT or DOUBLE column, which Arrow's footer does not record."""

    nan: bool = False
    negative_zero: bool = False
    positive_zero: bool = False

    def __or__(self, other: FloatMarks) -> FloatMarks:
        return FloatMarks(
            self.nan or other.nan, self.negative_zero or other.negative_zero, self.positive_zero or other.positive_zero
        )


def merge_chunk_stats(chunks: Sequence[ChunkStats], t: DataType, marks: FloatMarks | None = None) -> FooterStats:
    """Merge the statistics of a column over some of its chunks; string bounds stay UTF-8 bytes.

    marks   special values of a FLOAT or DOUBLE column; without them the bounds leave NaN out (as Arrow writes them) and
            have a sign of zero that may not occur
    """
    null_count, rows = 0, 0
    low: Any = None
    high: Any = None
    known = t.root not in _COUNT_ONLY_ROOTS
    has_nan = marks is not None and marks.nan
    internal: _Internal = _INTERNAL.get(t.root, _whole_number)
    for values, nulls, raw_low, raw_high in chunks:
        if nulls is None:
            return NO_STATS
        rows += values
        null_count += nulls
        if not known or nulls == values:
            continue
        if raw_low is None:
            # A value too long for the footer: what the other chunks say would not bound the column. Or nothing but NaN.
            known = has_nan
            continue
        chunk_low, chunk_high = internal(raw_low, t), internal(raw_high, t)
        low = chunk_low if low is None else min(low, chunk_low)
        high = chunk_high if high is None else max(high, chunk_high)
    if not known or null_count == rows:
        return FooterStats(null_count=null_count)
    if marks is not None:
        low, high = _java_bounds(low, high, marks)
    return FooterStats(low, high, null_count)


def _java_bounds(low: float | None, high: float | None, marks: FloatMarks) -> tuple[float | None, float | None]:
    if marks.nan:
        low, high = (math.nan if low is None else low), math.nan
    if low == 0:
        low = -0.0 if marks.negative_zero else 0.0
    if high == 0:
        high = 0.0 if marks.positive_zero else -0.0
    return low, high


def _whole_number(raw: Any, t: DataType) -> int:
    return int(raw)


def _decimal(raw: Any, t: DataType) -> Decimal:
    return decimal_of(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw), t)


def _timestamp(raw: Any, t: DataType) -> tuple[int, int]:
    return arrow_int_to_timestamp(int(raw), t.precision)


def _utf8(raw: Any, t: DataType) -> bytes:
    return raw if isinstance(raw, bytes) else str(raw).encode()


def _boolean(raw: Any, t: DataType) -> bool:
    return bool(raw)


def _floating(raw: Any, t: DataType) -> float:
    return float(raw)


#: What makes an internal value of a footer bound in its physical form; strings stay UTF-8 bytes, whose order is theirs.
_INTERNAL: Mapping[Root, _Internal] = {
    Root.DECIMAL: _decimal, Root.BOOLEAN: _boolean, Root.FLOAT: _floating, Root.DOUBLE: _floating,
    **dict.fromkeys(TIMESTAMP_ROOTS, _timestamp), **dict.fromkeys(STRING_ROOTS, _utf8),
}  # fmt: skip


@contextlib.contextmanager
def damage_of(path: str) -> Iterator[None]:
    """Convert what Arrow raises on damaged bytes into CorruptFileError, and a failing disk into UnavailableError."""
    try:
        yield
    except LakeIdxError as e:
        e.path = e.path or path
        raise
    except _DAMAGE as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise UnavailableError(f"the file could not be read: {e}", path=path) from e
        raise CorruptFileError(f"not a readable data file: {_first_line(e)}", path=path) from e


# What Arrow raises on bytes that are no Parquet file, or a damaged one.
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError, OverflowError)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def leaf_paths(name: str, t: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Return (dotted Parquet path, Arrow type) of every leaf column below an Arrow column."""
    if pa.types.is_struct(t):
        for i in range(t.num_fields):
            yield from leaf_paths(f"{name}.{t.field(i).name}", t.field(i).type)
    elif pa.types.is_map(t):
        yield from leaf_paths(f"{name}.key_value.key", t.key_type)
        yield from leaf_paths(f"{name}.key_value.value", t.item_type)
    elif pa.types.is_list(t) or pa.types.is_large_list(t):
        yield from leaf_paths(f"{name}.list.element", t.value_type)
    else:
        yield name, t
