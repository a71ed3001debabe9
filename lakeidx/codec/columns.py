"""Arrow columns in the three shapes the row kernels know.

==============  =====================================================================================================
shape           Paimon types
==============  =====================================================================================================
FixedColumn     value fits a row slot: BOOLEAN .. DOUBLE, DATE, TIME, DECIMAL p <= 18, TIMESTAMP p <= 3
TailColumn      half a slot plus a tail of fixed size: DECIMAL p > 18 (16 bytes), TIMESTAMP p > 3 (8 bytes)
BytesColumn     bytes of any length: strings, binary, VARIANT and nested values (those two encoded value by value)
==============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import Column, Mask, frozen, null_mask, one_array, values_of
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import arrow_to_internal
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

# Bits of a value as an unsigned integer of its own width.
_UNSIGNED = {
    Root.TINYINT: np.uint8,
    Root.SMALLINT: np.uint16,
    Root.INT: np.uint32,
    Root.DATE: np.uint32,
    Root.TIME: np.uint32,
    Root.FLOAT: np.uint32,
    Root.BIGINT: np.uint64,
    Root.DOUBLE: np.uint64,
}
#: Bytes of a value, of types that fit a slot.
WIDTHS = {Root.BOOLEAN: 1, **{root: np.dtype(unsigned).itemsize for root, unsigned in _UNSIGNED.items()}}
_INLINE_BYTES = 7
_NEVER_INLINE = -1


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """words uint32[n] or uint64[n], zero where null; width bytes of a value; valid bool[n], or None without nulls."""

    words: npt.NDArray[Any]
    width: int
    valid: Mask | None


@dataclass(frozen=True, slots=True)
class TailColumn:
    """low uint32[n] (nanos, or number of bytes) and one or two uint64[n] of tail; all zero where null."""

    low: npt.NDArray[np.uint32]
    tails: tuple[npt.NDArray[np.uint64], ...]
    valid: Mask | None

    @property
    def tail_size(self) -> int:
        """Bytes of the tail in a BinaryRow, null or not."""
        return 8 * len(self.tails)


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """Value i is ``data[starts[i]:][:lengths[i]]``; length -1 = null; up to `inline_max` bytes fit a slot."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    inline_max: int
    valid: Mask | None


AnyColumn: TypeAlias = FixedColumn | TailColumn | BytesColumn


def _zero_nulls(words: npt.NDArray[Any], valid: Mask | None) -> npt.NDArray[Any]:
    if valid is not None:
        words = np.where(valid, words, words.dtype.type(0))
    return frozen(words)


def fixed_words(array: pa.Array, t: DataType) -> npt.NDArray[Any]:
    """Return the bits of values that fit a slot: uint32[n] or uint64[n], upper bytes zero; arbitrary for nulls."""
    if t.root is Root.BOOLEAN:
        return np.asarray(array.fill_null(False)).astype(np.uint32)
    if t.root is Root.DECIMAL:
        return values_of(array, np.uint64, 2)[::2]
    if t.root in TIMESTAMP_ROOTS:
        return values_of(array, np.uint64)
    words = values_of(array, _UNSIGNED[t.root])
    return words.astype(np.uint32) if words.itemsize < 4 else words


def fixed_width(t: DataType) -> int:
    """Return the bytes of a value that fits a slot."""
    return WIDTHS.get(t.root, 8)


def is_fixed(t: DataType) -> bool:
    """Return True for types of `FixedColumn`."""
    return t.root in WIDTHS or t.is_compact


def _split_timestamps(array: pa.Array, t: DataType) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Split TIMESTAMP p > 3 into epoch millis int64[n] and nanos of the milli uint32[n]; arbitrary for nulls."""
    ticks = values_of(array, np.int64)
    per_milli = 1_000 if t.precision <= 6 else 1_000_000
    millis = ticks // per_milli
    nanos = (ticks - millis * per_milli) * (1_000_000 // per_milli)
    return millis, nanos.astype(np.uint32)


def bytes_column(array: pa.Array, inline_max: int = _INLINE_BYTES) -> BytesColumn:
    """Wrap the bytes as an Arrow (large_)string or (large_)binary array, without a copy."""
    valid = null_mask(array)
    n = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    if n == 0 or offset_buffer is None:
        nothing = frozen(np.zeros(0, np.int64))
        return BytesColumn(frozen(np.zeros(0, np.uint8)), nothing, nothing, inline_max, valid)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    raw = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
    offsets = raw[array.offset : array.offset + n + 1].astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    if valid is not None:
        lengths[~valid] = -1
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return BytesColumn(frozen(data), frozen(offsets[:-1]), frozen(lengths), inline_max, valid)


def _tail_column(array: pa.Array, t: DataType) -> TailColumn:
    valid = null_mask(array)
    if t.root is Root.DECIMAL:
        from lakeidx.codec.kernels import split_decimals

        pairs = values_of(array, np.uint64, 2)
        lengths = np.empty(len(array), np.int64)
        tails = np.empty((2, len(array)), np.uint64)
        split_decimals(frozen(pairs[::2]), frozen(pairs[1::2]), lengths, tails)
        words = tuple(_zero_nulls(tail, valid) for tail in tails)
        return TailColumn(_zero_nulls(lengths.astype(np.uint32), valid), words, valid)
    millis, nanos = _split_timestamps(array, t)
    return TailColumn(_zero_nulls(nanos, valid), (_zero_nulls(millis.view(np.uint64), valid),), valid)


def _encoded_column(array: pa.Array, t: DataType, encode: Callable[[Any, DataType], bytes]) -> BytesColumn:
    values = arrow_to_internal(array, t)
    pieces = RowBytes.from_list([b"" if v is None else encode(v, t) for v in values])
    lengths = pieces.lengths
    valid = null_mask(array)
    if valid is not None:
        lengths[~valid] = -1
    return BytesColumn(frozen(pieces.data), frozen(pieces.offsets[:-1]), frozen(lengths), _NEVER_INLINE, valid)


def split_columns(
    columns: Sequence[Column],
    types: Sequence[DataType],
    num_rows: int | None,
    encode_nested: Callable[[Any, DataType], bytes],
) -> tuple[list[AnyColumn], int]:
    """Split columns into the shapes of this module, and count the rows.

    num_rows       only needed when there is no column to tell it
    encode_nested  bytes of one VARIANT, ARRAY, MAP, MULTISET or ROW value
    errors         InvalidInputError for columns of unequal length or of other types
    """
    if len(columns) != len(types):
        raise InvalidInputError(f"{len(columns)} columns for {len(types)} types")
    n = num_rows if num_rows is not None else len(columns[0]) if columns else 0
    out: list[AnyColumn] = []
    for column, t in zip(columns, types, strict=True):
        if len(column) != n:
            raise InvalidInputError(f"columns of unequal length: {sorted({n, *map(len, columns)})}")
        array = one_array(column, t)
        if is_fixed(t):
            valid = null_mask(array)
            out.append(FixedColumn(_zero_nulls(fixed_words(array, t), valid), fixed_width(t), valid))
        elif t.root is Root.DECIMAL or t.root in TIMESTAMP_ROOTS:
            out.append(_tail_column(array, t))
        elif t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
            out.append(bytes_column(array))
        else:
            out.append(_encoded_column(array, t, encode_nested))
    return out, n
