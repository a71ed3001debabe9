"""Key columns as fields whose unsigned order is Paimon's key order (the table).

A key column becomes, in this order: a null bit (0 = null, so that null comes first) where requested, then its value: one or
two unsigned words for fixed-width types, or the bytes themselves for strings and binary.

==================  ==================================================================
type                order
==================  ==================================================================
null                before every value
BOOLEAN             false < true
integers            numeric; DATE and TIME too
FLOAT, DOUBLE       numeric, but -0.0 < 0.0 and NaN (any bits) equal to itself, largest
strings, binary     unsigned bytes (UTF-8), a prefix first
DECIMAL             numeric
TIMESTAMP           millis, then nanos of the milli
==================  ==================================================================

source   org.apache.paimon.codegen generated RecordComparator, RowCompactedSerializer.SliceComparator; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import Column, frozen, null_mask, one_array, values_of
from lakeidx.codec.columns import BytesColumn, bytes_column, fixed_width
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class WordField:
    """values uint64[n], each below ``2**bits``; 0 where the column is null."""

    values: npt.NDArray[np.uint64]
    bits: int


OrderField: TypeAlias = WordField | BytesColumn


def order_fields(
    columns: Sequence[Column], types: Sequence[DataType], *, null_bits_by_type: bool = False
) -> tuple[list[OrderField], int]:
    """Return the fields of the key columns, and the number of rows; nulls are empty strings or 0.

    null_bits_by_type  True: a null bit for every nullable type (comparable across batches);
                       False: only for columns in which something is null (shorter)
    errors             InvalidInputError for types without order, columns of other types or unequal length, no column, and,
                       with `null_bits_by_type`, a null in a NOT NULL column
    """
    if len(columns) != len(types) or not types:
        raise InvalidInputError(f"{len(columns)} columns for {len(types)} types; a key has at least one")
    n = len(columns[0])
    fields: list[OrderField] = []
    for column, t in zip(columns, types, strict=True):
        if t.is_nested or t.root is Root.VARIANT:
            raise InvalidInputError(f"values of {t} have no order")
        if len(column) != n:
            raise InvalidInputError(f"columns of unequal length: {n} and {len(column)}")
        array = one_array(column, t)
        valid = null_mask(array)
        if null_bits_by_type and valid is not None and not t.nullable:
            raise InvalidInputError(f"a key column of {t} has {array.null_count} nulls")
        if valid is not None or (null_bits_by_type and t.nullable):
            marks = np.ones(n, np.uint64) if valid is None else valid.astype(np.uint64)
            fields.append(WordField(marks, 1))
        if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
            part = bytes_column(array)
            if valid is not None:
                part = BytesColumn(part.data, part.starts, frozen(np.maximum(part.lengths, 0)), part.inline_max, None)
            fields.append(part)
        else:
            for words, bits in _ordered_words(array, t):
                fields.append(WordField(words if valid is None else np.where(valid, words, np.uint64(0)), bits))
    return fields, n


def _ordered_words(array: pa.Array, t: DataType) -> list[tuple[npt.NDArray[np.uint64], int]]:
    """Return (uint64[n], bits), most significant first; anything where null."""
    if t.root is Root.BOOLEAN:
        return [(np.asarray(array.fill_null(False)).astype(np.uint64), 1)]
    if t.root is Root.FLOAT:
        return [(_ordered_floats(values_of(array, np.float32), np.uint32).astype(np.uint64), 32)]
    if t.root is Root.DOUBLE:
        return [(_ordered_floats(values_of(array, np.float64), np.uint64), 64)]
    if t.root is Root.DECIMAL:
        pairs = values_of(array, np.uint64, 2)
        if t.is_compact:
            return [(pairs[::2] ^ _SIGN, 64)]
        return [(pairs[1::2] ^ _SIGN, 64), (pairs[::2].copy(), 64)]
    if t.root in TIMESTAMP_ROOTS:
        return [(values_of(array, np.uint64) ^ _SIGN, 64)]
    bits = 8 * fixed_width(t)
    signed = values_of(array, np.dtype(f"<i{bits // 8}"))
    if bits == 64:
        return [(signed.view(np.uint64) ^ _SIGN, 64)]
    return [((signed.astype(np.int64) + (1 << (bits - 1))).view(np.uint64), bits)]


def _ordered_floats(floats: npt.NDArray[Any], unsigned: Any) -> npt.NDArray[Any]:
    """Return IEEE bits so that unsigned order is Java's: negative numbers reversed, every NaN the canonical, greatest one."""
    raw = floats.view(unsigned)
    canonical = np.array(np.nan, floats.dtype).view(unsigned)
    raw = np.where(np.isnan(floats), canonical, raw)
    sign = unsigned(1 << (8 * raw.itemsize - 1))
    found: npt.NDArray[Any] = np.where(raw & sign, ~raw, raw | sign)
    return found
