"""Casts of a column whose type was changed by ALTER, with Paimon's (Java's) results.

Fast where columns are long and Arrow or NumPy have the rule: widening of numbers, decimals and timestamps, Java's narrowing
of numbers. All other casts go value by value over the *distinct* values of the column (`scalar_cast`).

Overflow: whole numbers wrap, floating point numbers become the nearest whole number (NaN 0), decimals that do not fit are
null. Text that is not of the type is an error, as in Java. Local time zone casts take the zone UTC (Java: the zone of the
reading process).

source   org.apache.paimon.casting.CastExecutors and its rules, org.apache.paimon.utils.DateTimeUtils; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.evolution.cast_scalar import scalar_cast
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.types import INT_ROOTS, NESTED_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, to_arrow

_NUMPY = {
    Root.TINYINT: np.int8, Root.SMALLINT: np.int16, Root.INT: np.int32, Root.BIGINT: np.int64,
    Root.FLOAT: np.float32, Root.DOUBLE: np.float64,
}  # fmt: skip
_WIDTH = {Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.BIGINT: 8}


def cast_column(column: pa.ChunkedArray, old: DataType, new: DataType, *, name: str) -> pa.ChunkedArray:
    """Cast a column of type `old` to `new`.

    column   of ``to_arrow(old)``
    returns  of ``to_arrow(new)``
    errors   UnsupportedError when Paimon has no such cast, or for a time that Arrow cannot hold at more than 6 digits;
             InvalidInputError naming the column for text that does not parse
    """
    target = to_arrow(new)
    if is_same_value(old, new):
        return column if column.type == target else column.cast(target)
    if _is_arrow_cast(old, new):
        return _arrow_cast(column, target, old, new, name)
    if old.root in _NUMPY and new.root in _NUMPY:
        return pa.chunked_array([_java_number(chunk, new) for chunk in column.chunks], target)
    convert = scalar_cast(old, new)
    try:
        return _by_distinct_value(column, old, new, convert)
    except (ValueError, InvalidInputError, ArithmeticError) as e:
        raise InvalidInputError(f"column {name!r} changed from {old} to {new}: {e}") from e


def is_same_value(old: DataType, new: DataType) -> bool:
    """Return True when the two types store the same bytes: only nullability differs, or a text or byte string may be longer."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if old.root in STRING_ROOTS and new.root is Root.VARCHAR:
        return new.length >= old.length
    if old.root in (Root.BINARY, Root.VARBINARY) and new.root is Root.VARBINARY:
        return new.length >= old.length
    return old.root is Root.TIME and new.root is Root.TIME


def _is_arrow_cast(old: DataType, new: DataType) -> bool:
    """Return whether the cast loses nothing and Arrow's result is Java's."""
    if old.root in INT_ROOTS and new.root in INT_ROOTS:
        return _WIDTH[old.root] <= _WIDTH[new.root]
    if old.root is Root.FLOAT and new.root is Root.DOUBLE:
        return True
    if old.root is Root.DECIMAL and new.root is Root.DECIMAL:
        return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
    if old.root in TIMESTAMP_ROOTS and new.root in TIMESTAMP_ROOTS:
        # Between 6 and 9 digits Arrow could overflow; its safe cast then raises instead of wrapping.
        return old.precision <= new.precision
    return old.root is Root.DATE and new.root in TIMESTAMP_ROOTS


def _arrow_cast(
    column: pa.ChunkedArray, target: pa.DataType, old: DataType, new: DataType, name: str
) -> pa.ChunkedArray:
    try:
        return column.cast(target)
    except pa.ArrowInvalid as e:
        # Of these casts only those to nanoseconds can overflow.
        raise UnsupportedError(
            f"column {name!r} changed from {old} to {new} and holds a time beyond the years 1677 to 2262, which lakeidx cannot"
            " hold at a precision above 6; leave the column out, or change its type to a precision of 6"
        ) from e


def _java_number(chunk: pa.Array, new: DataType) -> pa.Array:
    """Cast as Java's primitive casts do: whole numbers wrap, floating point saturates to int or long first, then wraps."""
    values = chunk.fill_null(0).to_numpy(zero_copy_only=False)
    target = _NUMPY[new.root]
    if new.root in INT_ROOTS and values.dtype.kind == "f":
        wide: Any = np.int64 if new.root is Root.BIGINT else np.int32
        info = np.iinfo(wide)
        whole = np.nan_to_num(
            np.trunc(values.astype(np.float64)), nan=0.0, posinf=float(info.max), neginf=float(info.min)
        )
        # float(max of int64) is 2**63: compare before converting.
        out = np.where(whole >= float(info.max), info.max, np.where(whole <= float(info.min), info.min, 0)).astype(wide)
        inside = (whole < float(info.max)) & (whole > float(info.min))
        out[inside] = whole[inside].astype(wide)
        values = out
    with np.errstate(over="ignore"):
        converted = values.astype(target)
    mask = chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count else None
    return pa.array(converted, to_arrow(new), mask=mask)


def _by_distinct_value(
    column: pa.ChunkedArray, old: DataType, new: DataType, convert: Callable[[Any], Any]
) -> pa.ChunkedArray:
    target = to_arrow(new)
    if old.root in NESTED_ROOTS:
        values = [None if v is None else convert(v) for v in arrow_to_internal(column, old)]
        return pa.chunked_array([internal_to_arrow(values, new)], target)
    chunks = []
    for chunk in column.chunks:
        # Floats by their bits: -0.0 and 0.0 are two texts.
        bits = {Root.FLOAT: pa.int32(), Root.DOUBLE: pa.int64()}.get(old.root)
        encoded = (chunk.view(bits) if bits is not None else chunk).dictionary_encode()
        distinct = encoded.dictionary.view(to_arrow(old)) if bits is not None else encoded.dictionary
        values = [None if v is None else convert(v) for v in arrow_to_internal(distinct, old)]
        chunks.append(pc.take(internal_to_arrow(values, new), encoded.indices))
    return pa.chunked_array(chunks, target)
