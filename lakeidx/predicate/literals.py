"""Literals cast to the type of a column: Python values and SQL text become internal values (see `lakeidx.types`).

A literal between two values of the type (5.5 for an INT) or outside its range (300 for a TINYINT) is legal in a
comparison. It is cast to the greatest value not above it and marked, and `lakeidx.predicate.bind` turns the comparison
into one that means the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np

from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_INT_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_CONTEXT = Context(prec=200, rounding=ROUND_FLOOR)
_NON_FINITE = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
               "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in a column's type.

    value   internal value: equal to the literal, or when `exact` is false the greatest one below it
    exact   whether some value of the type equals the literal
    beyond  +1: above every value of the type, -1: below every one (`value` is then None), 0: inside
    """

    value: Any
    exact: bool = True
    beyond: int = 0


def cast_literal(value: Any, t: DataType, *, where: str = "literal", strict_float: bool = False) -> Literal:
    """Convert a literal to a column's type.

    value         a Python or NumPy scalar, an internal value of `t`, or text as SQL writes a value of `t`
                  ('2024-01-31', '1.5'). Aware datetimes and text with a zone are taken as that instant; a LTZ column
                  takes values without zone as UTC.
    where         what messages name
    strict_float  a FLOAT column takes a value that is no 32-bit float for inexact; otherwise (SQL text) it is rounded
                  to the nearest
    errors        InvalidInputError when a value of this kind cannot be compared with the type
    """
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if t.root in INT_ROOTS:
        return _to_int(value, t, where)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return _to_float(value, t, where, strict_float)
    if t.root in TIMESTAMP_ROOTS or t.root in (Root.DATE, Root.TIME):
        from lakeidx.predicate.instants import cast_instant

        return cast_instant(value, t, where)
    cast = _SIMPLE.get(t.root)
    if cast is not None:
        return cast(value, t, where)
    raise InvalidInputError(
        f"{where}: values of type {t} cannot be compared; only IS NULL and IS NOT NULL are possible"
    )


def no_literal_of(value: Any, t: DataType, where: str, hint: str = "") -> InvalidInputError:
    """Return the error for a literal that is no value of its column's type."""
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    return InvalidInputError(
        f"{where}: {shown} cannot be compared with {t.with_nullable(True)}{'; ' + hint if hint else ''}"
    )


def _to_decimal(value: Any, t: DataType, where: str) -> Decimal | float:
    """Return the number, exactly; a float only when it is not finite."""
    if isinstance(value, bool):
        raise no_literal_of(value, t, where)
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() else math.nan if value.is_nan() else float(value)
    if isinstance(value, float):
        return Decimal(value) if math.isfinite(value) else value
    if isinstance(value, str):
        special = _NON_FINITE.get(value.strip().lower())
        if special is not None:
            return special
        try:
            number = Decimal(value.strip())
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite():
            return number
    raise no_literal_of(value, t, where)


def _to_int(value: Any, t: DataType, where: str) -> Literal:
    number = _to_decimal(value, t, where)
    limit = 1 << (_INT_BITS[t.root] - 1)
    if isinstance(number, float):  # NaN stands above every number
        return Literal(None, False, -1 if number < 0 else 1)
    if number > limit - 1 and number.to_integral_value(ROUND_FLOOR) > limit - 1:
        return Literal(None, False, 1)
    if number < -limit:
        return Literal(None, False, -1)
    floor = int(number.to_integral_value(ROUND_FLOOR))
    return Literal(floor, number == floor)


def _to_float(value: Any, t: DataType, where: str, strict: bool) -> Literal:
    number = _to_decimal(value, t, where)
    try:
        result = float(number)
    except OverflowError:
        result = math.copysign(math.inf, number)
    if isinstance(value, float):
        result = value  # keeps -0.0
    if t.root is Root.DOUBLE or not math.isfinite(result):
        return Literal(result)
    with np.errstate(over="ignore"):
        nearest = np.float32(result)
    if np.isfinite(nearest) and (not strict or float(nearest) == result):
        return Literal(float(nearest))
    below = nearest if float(nearest) < result else np.nextafter(nearest, np.float32(-np.inf))
    return Literal(float(below), False)


def _to_decimal_column(value: Any, t: DataType, where: str) -> Literal:
    # A Python float means its shortest text here: 0.1 is the decimal 0.1.
    number = _to_decimal(repr(value) if isinstance(value, float) else value, t, where)
    if isinstance(number, float):
        return Literal(None, False, -1 if number < 0 else 1)
    limit = Decimal(10) ** (t.precision - t.scale)
    if number >= limit:
        return Literal(None, False, 1)
    if number <= -limit:
        return Literal(None, False, -1)
    floor = number.quantize(Decimal(1).scaleb(-t.scale), context=_CONTEXT)
    if floor <= -limit:
        return Literal(None, False, -1)
    return Literal(floor, floor == number)


def _to_bool(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, bool):
        return Literal(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return Literal(value.strip().lower() == "true")
    raise no_literal_of(value, t, where, "write TRUE or FALSE")


def _to_string(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise no_literal_of(value, t, where, "it contains a lone surrogate") from None
        return Literal(value)
    raise no_literal_of(value, t, where, f"write it in quotes: '{value}'" if isinstance(value, (int, Decimal)) else "")


def _to_bytes(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Literal(bytes(value))
    raise no_literal_of(value, t, where, "write the bytes in hex: X'1F'")


_SIMPLE: dict[Root, Callable[[Any, DataType, str], Literal]] = {
    Root.DECIMAL: _to_decimal_column,
    Root.BOOLEAN: _to_bool,
    **dict.fromkeys(STRING_ROOTS, _to_string),
    **dict.fromkeys(BYTES_ROOTS, _to_bytes),
}
