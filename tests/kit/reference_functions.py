"""Aggregate functions one record at a time, on internal values: plain twins of what kernels and whole columns do.

Each follows its Java class step by step. The functions of texts, arrays, maps, nested tables and bitmaps have no other form than
the product's.

source   org.apache.paimon.mergetree.compact.aggregate.Field*Agg, org.apache.paimon.utils.{DecimalUtils, InternalRowUtils},
         release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from lakeidx.codec.values import decimal_of
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import ADD, OLDER, RETRACT, SET, SET_RETRACT
from lakeidx.data.engines.scalar.base import ScalarFunction, divided_by_zero, is_ordered, not_comparable
from lakeidx.data.engines.scalar.functions import make_scalar_function
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, Root
from tests.kit.scalar_twins import compare_values

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


def make_reference_function(spec: FunctionSpec) -> ScalarFunction:
    """Make a column's function for one key."""
    function = _PLAIN.get(spec.name, make_scalar_function)(replace(spec, ignore_retract=False))
    return _IgnoreRetract(function) if spec.ignore_retract else function


def fold_one_by_one(function: ScalarFunction, operations: Iterable[tuple[int, Any]]) -> Any:
    """Apply (operation code, value) pairs of one key, record at a time."""
    acc = None
    for op, value in operations:
        if op == ADD:
            acc = function.agg(acc, value)
        elif op == OLDER:
            acc = function.agg_reversed(acc, value)
        elif op == RETRACT:
            acc = function.retract(acc, value)
        elif op == SET:
            acc = value
        elif op == SET_RETRACT:
            acc = function.retract(value, value)
    return acc


def _fitted(number: Fraction | int, t: DataType) -> Any:
    """Return a number of a whole or decimal type: integers wrap around, a decimal of too many digits is null."""
    if t.root in _BITS:
        half = 1 << (_BITS[t.root] - 1)
        return (math.trunc(number) + half) % (2 * half) - half
    unscaled = math.floor(abs(number) * 10**t.scale + Fraction(1, 2))
    return None if unscaled >= 10**t.precision else decimal_of(unscaled if number >= 0 else -unscaled, t)


def _float_of(t: DataType) -> Any:
    return {Root.FLOAT: np.float32, Root.DOUBLE: np.float64}.get(t.root)


class _IgnoreRetract(ScalarFunction):
    def __init__(self, inner: ScalarFunction) -> None:
        super().__init__(inner.spec)
        self.agg = inner.agg  # type: ignore[method-assign]

    # agg_reversed stays the general one: Java's wrapper does not ask the wrapped function for its own.

    def retract(self, acc: Any, value: Any) -> Any:
        return acc


class _Sum(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        return (value if acc is None else acc) if acc is None or value is None else self._added(acc, value, 1)

    def retract(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        if (number := _float_of(self.type)) and acc is None:
            return float(-number(value))
        if acc is None:
            return _fitted(-Fraction(value), self.type)
        return self._added(acc, value, -1)

    def _added(self, acc: Any, value: Any, sign: int) -> Any:
        if number := _float_of(self.type):
            with np.errstate(all="ignore"):
                return float(number(acc) + number(value) if sign > 0 else number(acc) - number(value))
        result = Fraction(acc) + sign * Fraction(value)
        # Up to 18 digits Java adds longs and does not look at the precision; only a long overflow does.
        if self.type.root is Root.DECIMAL and self.type.precision <= 18:
            unscaled = int(result * 10**self.type.scale)
            if -(2**63) <= unscaled < 2**63:
                return decimal_of(unscaled, self.type)
        return _fitted(result, self.type)


class _Product(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        if number := _float_of(self.type):
            with np.errstate(all="ignore"):
                return float(number(acc) * number(value))
        return _fitted(Fraction(acc) * Fraction(value), self.type)

    def retract(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        if number := _float_of(self.type):
            with np.errstate(all="ignore"):
                return float(number(acc) / number(value))
        if value == 0:
            raise divided_by_zero(self.spec)
        quotient = Fraction(acc) / Fraction(value)
        if self.type.root is Root.DECIMAL and 10**200 % quotient.denominator:
            raise InvalidInputError(f"column {self.spec.column!r}: the quotient never ends")
        return _fitted(quotient, self.type)


class _Last(ScalarFunction):
    """primary-key, last_value and last_non_null_value."""

    def agg(self, acc: Any, value: Any) -> Any:
        return acc if value is None and self.spec.name == "last_non_null_value" else value

    def retract(self, acc: Any, value: Any) -> Any:
        if self.spec.name == "primary-key":
            return value
        return acc if value is None and self.spec.name == "last_non_null_value" else None


class _First(ScalarFunction):
    """first_value and first_non_null_value."""

    _seen = False

    def agg(self, acc: Any, value: Any) -> Any:
        if self._seen or (value is None and self.spec.name == "first_non_null_value"):
            return acc
        self._seen = True
        return value


class _Chosen(ScalarFunction):
    """max, min, bool_or and bool_and."""

    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        if not self.spec.name.startswith("bool_") and not is_ordered(self.type):
            raise not_comparable(self.spec)
        return value if (compare_values(acc, value, self.type) < 0) == (self.spec.name in ("max", "bool_or")) else acc


_PLAIN: dict[str, Callable[[FunctionSpec], ScalarFunction]] = {
    "sum": _Sum,
    "product": _Product,
    **dict.fromkeys(("primary-key", "last_value", "last_non_null_value"), _Last),
    **dict.fromkeys(("first_value", "first_non_null_value"), _First),
    **dict.fromkeys(("max", "min", "bool_or", "bool_and"), _Chosen),
}
