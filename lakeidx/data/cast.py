"""Casts of a column whose type was changed by ALTER, with Paimon's (Java's) results.

Fast where columns are long and Arrow or NumPy have the rule: widening of numbers, decimals and timestamps, Java's narrowing
of numbers. All other casts go value by value over the *distinct* values of the column (`scalar_cast`).

Overflow: whole numbers wrap, floating point numbers become the nearest whole number (NaN 0), decimals that do not fit are
null. Text that is not of the type is an error, as in Java. Local time zone casts take the zone UTC (Java: the zone of the
reading process).

source   org.apache.paimon.casting.CastExecutors and its rules, org.apache.paimon.utils.DateTimeUtils; release 1.4.2

Casts of one value as Paimon's Java casts it: the rules behind `lakeidx.data.cast`, over internal values.

source   org.apache.paimon.casting.*CastRule, org.apache.paimon.utils.BinaryStringUtils, DateTimeUtils, DecimalUtils;
         release 1.4.2
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.java_text import (
    date_text,
    double_text,
    float_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from lakeidx.codec.values import arrow_to_internal, internal_to_arrow, map_types
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.types import (
    BYTES_ROOTS,
    INT_ROOTS,
    MAX_LENGTH,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    Root,
    to_arrow,
)

_NUMPY = {
    Root.TINYINT: np.int8, Root.SMALLINT: np.int16, Root.INT: np.int32, Root.BIGINT: np.int64,
    Root.FLOAT: np.float32, Root.DOUBLE: np.float64,
}  # fmt: skip
_WIDTH = {Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.BIGINT: 8}

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def cast_to_type(column: pa.ChunkedArray, old: DataType, new: DataType, *, name: str) -> pa.ChunkedArray:
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


def floor_moments(moments: pa.Array | pa.ChunkedArray, unit: str) -> pa.Array | pa.ChunkedArray:
    """Round moments down to a coarser unit; Arrow's own floor leaves 64 bits in the unit of the first nanoseconds."""
    t = moments.type
    by = _PER_SECOND[t.unit] // _PER_SECOND[unit]
    ticks = moments.cast(pa.int64())
    whole = pc.divide(ticks, by)
    below = pc.less(pc.subtract(ticks, pc.multiply(whole, by)), 0)
    return pc.subtract(whole, below.cast(pa.int64())).cast(pa.timestamp(unit, t.tz))


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


Cast = Callable[[Any], Any]

_WIDE = Context(prec=400)
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_NUMBERS = INT_ROOTS | {Root.FLOAT, Root.DOUBLE, Root.DECIMAL}
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_WHOLE = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?", re.ASCII)
_MS_PER_DAY = 86_400_000
_STRING = DataType(Root.VARCHAR, length=MAX_LENGTH)


def scalar_cast(old: DataType, new: DataType) -> Cast:
    """Return the function that casts one non-null internal value; it returns None for a decimal that does not fit.

    errors   UnsupportedError when Paimon has no such cast; the function raises ValueError for text that does not parse
    """
    found = _find(old, new)
    if found is None:
        raise UnsupportedError(f"Paimon has no cast from {old} to {new}")
    return found


def _find(old: DataType, new: DataType) -> Cast | None:
    if new.root in STRING_ROOTS:
        return _to_string(old, new)
    if old.root in STRING_ROOTS:
        return _from_string(new)
    if old.root in BYTES_ROOTS:
        return _bytes_of(new) if new.root in BYTES_ROOTS else None
    if old.root is Root.BOOLEAN:
        return _from_number(DataType(Root.INT), new) if new.root in _NUMBERS else None
    if old.root in _NUMBERS:
        return _from_number(old, new)
    if old.root is Root.DATE:
        return (lambda v: (v * _MS_PER_DAY, 0)) if new.root in TIMESTAMP_ROOTS else None
    if old.root is Root.TIME:
        return (lambda v: (v, 0)) if new.root in TIMESTAMP_ROOTS else None
    if old.root in TIMESTAMP_ROOTS:
        return _from_timestamp(new)
    return None


def _from_number(old: DataType, new: DataType) -> Cast | None:
    if new.root is Root.DECIMAL:
        return lambda v: fit_decimal(_decimal_of_number(v, old), new)
    if new.root in INT_ROOTS:
        bits = _BITS[new.root]
        if old.root is Root.DECIMAL:
            return lambda v: wrap(wrap(int(v.to_integral_value(ROUND_DOWN, _WIDE)), 64), bits)
        if old.root in (Root.FLOAT, Root.DOUBLE):
            return lambda v: wrap(_saturate(v, 64 if bits == 64 else 32), bits)
        return lambda v: wrap(int(v), bits)
    if new.root in (Root.FLOAT, Root.DOUBLE):
        narrow = _to_float32 if new.root is Root.FLOAT else float
        return lambda v: narrow(_double_of_decimal(v, old) if old.root is Root.DECIMAL else float(v))
    if new.root is Root.BOOLEAN:
        return (lambda v: v != 0) if old.root in INT_ROOTS else None
    if new.root in TIMESTAMP_ROOTS:
        return (lambda v: (v * 1000, 0)) if old.root in (Root.INT, Root.BIGINT) else None
    return None


def fit_decimal(value: Decimal, t: DataType) -> Decimal | None:
    """Round half up to the scale; None when there are more digits than the precision."""
    rounded = value.quantize(Decimal(1).scaleb(-t.scale), ROUND_HALF_UP, _WIDE)
    return None if abs(rounded).scaleb(t.scale, _WIDE) >= 10**t.precision else rounded


def wrap(value: int, bits: int) -> int:
    """Return the low bits of a whole number, signed."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _to_float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _saturate(value: float, bits: int) -> int:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)


def _decimal_of_number(value: Any, old: DataType) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a decimal number")
        # Java goes by the text of the double; a FLOAT is widened to double first.
        return Decimal(double_text(value))
    return Decimal(int(value))


def _double_of_decimal(value: Decimal, old: DataType) -> float:
    if old.precision <= 18:
        return float(int(value.scaleb(old.scale, _WIDE))) / float(10**old.scale)
    return float(value)


def _from_timestamp(new: DataType) -> Cast | None:
    if new.root is Root.DATE:
        return lambda v: v[0] // _MS_PER_DAY
    if new.root is Root.TIME:
        return lambda v: v[0] % _MS_PER_DAY
    if new.root in (Root.INT, Root.BIGINT):
        bits = _BITS[new.root]
        return lambda v: wrap(v[0] // 1000 if v[0] >= 0 else -(-v[0] // 1000), bits)
    if new.root in TIMESTAMP_ROOTS:
        return lambda v: truncate_timestamp(v, new.precision)
    return None


def truncate_timestamp(value: tuple[int, int], precision: int) -> tuple[int, int]:
    """Cut off digits beyond the precision, towards zero in the milliseconds as Java's `%` has it."""
    millis, nanos = value
    if precision >= 3:
        unit = 10 ** (9 - precision) if precision < 9 else 1
        return millis, nanos - nanos % unit
    unit = 10 ** (3 - precision)
    if millis % unit == 0 and nanos == 0:
        return value
    return int(math.copysign(abs(millis) - abs(millis) % unit, millis)), 0


def _to_string(old: DataType, new: DataType) -> Cast | None:
    unbounded = new.root is Root.VARCHAR and new.length == MAX_LENGTH
    if old.root in (Root.DATE, Root.TIME) or old.root in TIMESTAMP_ROOTS:
        return _temporal_text(old) if unbounded else None
    text = _text_of(old)
    if text is None or old.root in BYTES_ROOTS or old.is_nested:
        return text
    return lambda v: _fit_text(text(v), new)


def _fit_text(text: str, t: DataType) -> str:
    """Cut to the length; CHAR is padded with blanks."""
    if len(text) > t.length:
        return text[: t.length]
    return text.ljust(t.length) if t.root is Root.CHAR else text


def _temporal_text(old: DataType) -> Cast:
    if old.root is Root.DATE:
        return date_text
    if old.root is Root.TIME:
        return lambda v: time_text(v, old.precision)
    return lambda v: timestamp_text(v, old.precision)


def _text_of(old: DataType) -> Cast | None:
    if old.root in STRING_ROOTS:
        return lambda v: v
    if old.root is Root.BOOLEAN:
        return lambda v: "true" if v else "false"
    if old.root in INT_ROOTS:
        return str
    if old.root is Root.DECIMAL:
        return lambda v: f"{v:f}"
    if old.root is Root.FLOAT:
        return float_text
    if old.root is Root.DOUBLE:
        return double_text
    if old.root in BYTES_ROOTS:
        return lambda v: v.decode("utf-8", "replace")
    return _nested_text(old)


def _nested_text(old: DataType) -> Cast | None:
    if old.root is Root.ARRAY:
        assert old.element is not None
        element = _part_text(old.element)
        return lambda v: f"[{', '.join(element(e) for e in v)}]"
    if old.root is Root.MAP:
        key, item = (_part_text(t) for t in map_types(old))
        return lambda v: f"{{{', '.join(f'{key(k)} -> {item(e)}' for k, e in v)}}}"
    if old.root is Root.ROW:
        parts = [_part_text(f.type) for f in old.fields]
        return lambda v: f"{{{', '.join(p(e) for p, e in zip(parts, v, strict=True))}}}"
    return None


def _part_text(t: DataType) -> Cast:
    convert = scalar_cast(t, _STRING)
    return lambda v: "null" if v is None else convert(v)


def _from_string(new: DataType) -> Cast | None:
    if new.root in BYTES_ROOTS:
        fit = _bytes_of(new)
        return lambda v: fit(v.encode())
    if new.root is Root.BOOLEAN:
        return _parse_bool
    if new.root in INT_ROOTS:
        return lambda v: parse_whole(v, _BITS[new.root])
    if new.root is Root.FLOAT:
        return lambda v: _to_float32(_parse_double(v))
    if new.root is Root.DOUBLE:
        return _parse_double
    if new.root is Root.DECIMAL:
        return lambda v: fit_decimal(_parse_decimal(v), new)
    if new.root is Root.DATE:
        return parse_date
    if new.root is Root.TIME:
        return parse_time
    if new.root in TIMESTAMP_ROOTS:
        return lambda v: parse_timestamp(v, new)
    return None


def _bytes_of(new: DataType) -> Cast:
    if new.root is Root.BINARY:
        return lambda v: v[: new.length].ljust(new.length, b"\x00")
    return lambda v: v[: new.length]


def _parse_bool(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{text!r} is not a BOOLEAN")


def parse_whole(text: str, bits: int) -> int:
    """Parse a whole number; a fraction is allowed and cut off."""
    m = _WHOLE.fullmatch(text)
    if m is None or not text.lstrip("+-"):
        raise ValueError(f"{text!r} is not a whole number")
    value = int(m[2] or 0) * (-1 if m[1] == "-" else 1)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{text!r} does not fit {bits} bits")
    return value


def _parse_double(text: str) -> float:
    word = text.strip()
    if word in ("NaN", "+NaN", "-NaN"):
        return math.nan
    if word in ("Infinity", "+Infinity", "-Infinity"):
        return -math.inf if word[0] == "-" else math.inf
    if word[-1:] in "dDfF":
        word = word[:-1]
    if "_" in word or not word or word.lower().lstrip("+-")[:1] not in "0123456789.":
        raise ValueError(f"{text!r} is not a number")
    return float(word)


def _parse_decimal(text: str) -> Decimal:
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is None:
        raise ValueError(f"{text!r} is not a decimal number")
    return Decimal(text)
