"""Column values in the form file indexes keep them: 64-bit integers or byte strings.

==========================  ======================================================  ==================================
type                        number or string                                        key bytes (**big endian**)
==========================  ======================================================  ==================================
BOOLEAN, TINYINT            the value                                               1
SMALLINT                    the value                                               2
INT, DATE, TIME             the value, epoch days, ms of day                        4
BIGINT                      the value                                               8
FLOAT, DOUBLE               bits that order like ``Float.compare`` (see below)      4, 8: the IEEE bits
DECIMAL p <= 18             unscaled value                                          8
TIMESTAMP, LTZ              epoch ms (p <= 3) or µs (p > 3; further digits cut)     8
CHAR, VARCHAR               UTF-8 bytes                                             i32 length, bytes
==========================  ======================================================  ==================================

Floats: the IEEE bits as a signed integer, with all but the sign flipped when negative. So -0.0 is below and unequal to
0.0, and NaN (one bit pattern for all) is above infinity; predicates differ only in the two zeros
(`lakeidx.file_index.evaluate` sees to that).

source   org.apache.paimon.fileindex.bitmap.BitmapTypeVisitor, rangebitmap.dictionary.chunked.KeyFactory,
         bsi.BitSliceIndexBitmapFileIndex.getValueMapper, release 1.4.2
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import null_mask, one_array, values_of
from lakeidx.codec.cursor import Cursor
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.file_index.kinds.blocks import side_by_side
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_WIDTH = {Root.BOOLEAN: 1, Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.DATE: 4, Root.TIME: 4, Root.FLOAT: 4,
          Root.BIGINT: 8, Root.DOUBLE: 8, Root.DECIMAL: 8, Root.TIMESTAMP: 8, Root.TIMESTAMP_LTZ: 8}  # fmt: skip
_STORED = {Root.TINYINT: np.int8, Root.SMALLINT: np.int16, Root.INT: np.int32, Root.DATE: np.int32, Root.TIME: np.int32,
           Root.BIGINT: np.int64, Root.TIMESTAMP: np.int64, Root.TIMESTAMP_LTZ: np.int64}  # fmt: skip
_FLOATS: dict[Root, tuple[Any, Any, int]] = {
    Root.FLOAT: (np.float32, np.int32, 0x7FFFFFFF),
    Root.DOUBLE: (np.float64, np.int64, 0x7FFFFFFFFFFFFFFF),
}

Key = int | bytes


def is_bytes_type(t: DataType) -> bool:
    """Return whether values are byte strings rather than numbers."""
    return t.root in STRING_ROOTS or t.root in BYTES_ROOTS


def is_cut(t: DataType) -> bool:
    """Return whether different values may share a key (TIMESTAMP with more than 6 digits); then the index cannot prove equality."""
    return t.root in TIMESTAMP_ROOTS and t.precision > 6


def key_width(t: DataType) -> int | None:
    """Return the bytes of a key, or None for byte strings (a length and the bytes)."""
    return None if is_bytes_type(t) else _WIDTH[t.root]


@dataclass(frozen=True, slots=True)
class Numbers:
    """values int64[n] (anything where null); valid bool[n], or None without nulls."""

    values: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_] | None


def numbers_of(column: pa.Array | pa.ChunkedArray, t: DataType) -> Numbers:
    """Convert a column of any type but strings and bytes to numbers.

    errors   InvalidInputError when the column does not cast to the type
    """
    array = one_array(column, t)
    valid = null_mask(array)
    if t.root is Root.BOOLEAN:
        return Numbers(np.asarray(array.fill_null(False)).astype(np.int64), valid)
    if t.root is Root.DECIMAL:
        return Numbers(values_of(array, np.int64, 2)[::2], valid)  # p <= 18: the low word is the whole value
    if t.root in _FLOATS:
        floats, bits, flip = _FLOATS[t.root]
        values = values_of(array, floats)
        raw = np.where(np.isnan(values), floats(np.nan), values).view(bits)
        return Numbers(np.where(raw < 0, raw ^ bits(flip), raw).astype(np.int64), valid)
    values = values_of(array, _STORED[t.root]).astype(np.int64, copy=False)
    if is_cut(t):
        values = np.floor_divide(values, 1000)
    return Numbers(values, valid)


def key_of(value: Any, t: DataType) -> Key:
    """Convert an internal value to a number or byte string; the scalar twin of `numbers_of`."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if t.root is Root.DECIMAL:
        return int(value.scaleb(t.scale))
    if t.root in _FLOATS:
        return _float_key(value, t)
    if t.root in TIMESTAMP_ROOTS:
        return int(value[0]) if t.precision <= 3 else int(value[0] * 1000 + value[1] // 1000)
    return value if isinstance(value, bytes) else int(value)


def _float_key(value: float, t: DataType) -> int:
    """Return the number of a FLOAT or DOUBLE."""
    value = math.nan if math.isnan(value) else value
    code, flip = (">f", ">i"), 0x7FFFFFFF
    if t.root is Root.DOUBLE:
        code, flip = (">d", ">q"), 0x7FFFFFFFFFFFFFFF
    bits: int = struct.unpack(code[1], struct.pack(code[0], value))[0]
    return bits ^ flip if bits < 0 else bits


def float_bits(keys: npt.NDArray[np.int64], t: DataType) -> npt.NDArray[np.int64]:
    """Return the IEEE bits of floats, sign-extended; numbers of other types unchanged."""
    if t.root not in _FLOATS:
        return keys
    return np.where(keys < 0, keys ^ np.int64(_FLOATS[t.root][2]), keys)


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """The distinct values of a column, ascending, and which of them each row has.

    keys    int64[g], or g byte strings
    codes   int32[n]: index into keys; -1 = null
    """

    keys: npt.NDArray[np.int64] | RowBytes
    codes: npt.NDArray[np.int32]


class KeyCollector:
    """Gathers a column batch by batch; `distinct` then numbers its values."""

    def __init__(self, t: DataType) -> None:
        self._type = t
        self._numbers: list[Numbers] = []
        self._strings: list[pa.Array] = []

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows of the column."""
        if not is_bytes_type(self._type):
            self._numbers.append(numbers_of(column, self._type))
            return
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_binary()).dictionary_encode()
        self._strings += column.chunks if isinstance(column, pa.ChunkedArray) else [column]

    def numbers(self) -> Numbers:
        """Return all rows as numbers (not for strings)."""
        if len(self._numbers) == 1:
            return self._numbers[0]
        values = np.concatenate([p.values for p in self._numbers] or [np.zeros(0, np.int64)])
        if all(p.valid is None for p in self._numbers):
            return Numbers(values, None)
        return Numbers(values, np.concatenate([_valid(p) for p in self._numbers]))

    def distinct(self) -> DistinctKeys:
        """Return the distinct values of all rows.

        errors   InvalidInputError for more than 2^31 - 1 rows
        """
        if is_bytes_type(self._type):
            return self._distinct_strings()
        numbers = self.numbers()
        keys, codes = _rank(numbers.values if numbers.valid is None else numbers.values[numbers.valid])
        if numbers.valid is not None:
            every = np.full(len(numbers.values), -1, np.int32)
            every[numbers.valid] = codes
            codes = every
        return DistinctKeys(keys, codes)

    def _distinct_strings(self) -> DistinctKeys:
        parts = [pa.DictionaryArray.from_arrays(p.indices, p.dictionary.cast(pa.large_binary())) for p in self._strings]
        if not parts:
            return DistinctKeys(RowBytes.empty(), np.zeros(0, np.int32))
        column = pa.chunked_array(parts).unify_dictionaries()
        dictionary = column.chunk(column.num_chunks - 1).dictionary
        raw = np.concatenate([np.asarray(c.indices.fill_null(-1), np.int64) for c in column.chunks])
        order = np.asarray(pc.array_sort_indices(dictionary), np.int64)
        used = np.zeros(len(dictionary) + 1, bool)
        used[raw] = True  # -1 marks the extra last place
        order = order[used[:-1][order]]
        # A dictionary may hold an unused value, or one value twice.
        ordered = dictionary.take(pa.array(order))
        fresh = np.ones(len(order), bool)
        if len(order) > 1:
            fresh[1:] = np.asarray(pc.not_equal(ordered.slice(1), ordered.slice(0, len(order) - 1)))
        codes = np.full(len(dictionary) + 1, -1, np.int32)
        codes[order] = np.cumsum(fresh, dtype=np.int32) - 1
        return DistinctKeys(RowBytes.from_arrow(ordered.filter(pa.array(fresh))), codes[raw])


class CollectingWriter:
    """Writes an index of a column that is gathered whole.

    encode   makes the payload; None when the values cannot be indexed
    """

    def __init__(self, t: DataType, encode: Callable[[KeyCollector], bytes | None]) -> None:
        self._keys, self._encode = KeyCollector(t), encode

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows."""
        self._keys.add(column)

    def finish(self) -> bytes | None:
        """Return the payload; None when the values cannot be indexed."""
        return self._encode(self._keys)


def _valid(part: Numbers) -> npt.NDArray[np.bool_]:
    return np.ones(len(part.values), bool) if part.valid is None else part.valid


def _rank(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Sort the distinct numbers, and find the place of each value among them."""
    if len(values) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span <= max(1 << 16, 2 * len(values)):
        places = values - np.int64(low)
        seen = np.zeros(span, bool)
        seen[places] = True
        return np.flatnonzero(seen) + np.int64(low), (np.cumsum(seen, dtype=np.int32) - np.int32(1))[places]
    encoded = pa.array(values).dictionary_encode()
    keys = np.asarray(encoded.dictionary)
    order = np.argsort(keys)
    codes = np.empty(len(keys), np.int32)
    codes[order] = np.arange(len(keys), dtype=np.int32)
    return keys[order], codes[np.asarray(encoded.indices)]


def encode_keys(keys: npt.NDArray[np.int64] | RowBytes, t: DataType) -> RowBytes:
    """Encode keys as their bytes in a payload."""
    if isinstance(keys, RowBytes):
        return side_by_side(keys.lengths.astype(">i4"), keys)
    width = _WIDTH[t.root]
    words = np.ascontiguousarray(float_bits(keys, t).astype(f">i{width}"))
    return RowBytes(words.view(np.uint8), np.arange(len(keys) + 1, dtype=np.int64) * width)


def read_key(cursor: Cursor, t: DataType) -> Key:
    """Read the key at the cursor, in the form of `key_of`; CorruptFileError when it is none."""
    width = key_width(t)
    if width is None:
        at, length = cursor.pos, cursor.i32be()
        if length < 0:
            raise cursor.error(f"a key of {length} bytes", at=at)
        return cursor.bytes(length)
    found: Key = numbers_from(cursor.view(width), t, cursor).tolist()[0]
    return found


def numbers_from(data: memoryview, t: DataType, cursor: Cursor) -> npt.NDArray[np.int64]:
    """Return the fixed-width keys packed one after another, as numbers; `cursor` makes the error for a BOOLEAN other
    than 0 and 1.
    """
    values = np.frombuffer(data, f">i{_WIDTH[t.root]}").astype(np.int64)
    if t.root is Root.BOOLEAN and ((values < 0) | (values > 1)).any():
        raise cursor.error("a BOOLEAN key that is neither 0 nor 1")
    return float_bits(values, t)
