"""Aggregate functions one record at a time, on internal values: the plain twin of ``functions``.

Each follows its Java class step by step, including what it does with an older record (`agg_reversed`) and with state that
outlives a removed row. The functions whose values are no fixed-width numbers (listagg, collect, the maps and nested tables)
have no other form: the vectorised side calls these for the keys that have several records.

source   org.apache.paimon.mergetree.compact.aggregate.Field*Agg, org.apache.paimon.utils.{DecimalUtils, InternalRowUtils},
         release 1.4.2

sum and product one record at a time, in Java's arithmetic.

source   org.apache.paimon.mergetree.compact.aggregate.{FieldSumAgg, FieldProductAgg},
         org.apache.paimon.utils.DecimalUtils, release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from lakeidx.codec.values import decimal_of
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.scalar.base import ScalarFunction, divided_by_zero, is_ordered, not_comparable, order_of
from lakeidx.data.engines.scalar.collections import (
    Collect,
    ListAgg,
    MergeMap,
    MergeMapWithKeyTime,
    NestedPartialUpdate,
    NestedUpdate,
    Roaring32,
)
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, Root

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


class Sum(ScalarFunction):
    """Numbers added up; nulls are skipped."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        return self._fit(acc, value, 1)

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        if value is None:
            return acc
        if acc is None and self.type.root is Root.DECIMAL:
            return _decimal_or_none(-unscaled(value, self.type), self.type)
        return self._fit(acc, value, -1)

    def _fit(self, acc: Any, value: Any, sign: int) -> Any:
        root = self.type.root
        if root is Root.DECIMAL:
            result = unscaled(acc, self.type) + sign * unscaled(value, self.type)
            # Up to 18 digits Java adds longs and does not look at the precision; only a long overflow does.
            if self.type.precision <= 18 and -(2**63) <= result < 2**63:
                return decimal_of(result, self.type)
            return _decimal_or_none(result, self.type)
        if root in _BITS:
            return _wrap_overflow((0 if acc is None else acc) + sign * value, _BITS[root])
        with np.errstate(all="ignore"):
            number = np.float32 if root is Root.FLOAT else np.float64
            if acc is None:
                return float(-number(value))
            return float(number(acc) + number(value) if sign > 0 else number(acc) - number(value))


class Product(ScalarFunction):
    """Numbers multiplied; nulls are skipped."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        root = self.type.root
        if root is Root.DECIMAL:
            exact = unscaled(acc, self.type) * unscaled(value, self.type)
            return _decimal_or_none(_round_half_up(exact, 10**self.type.scale), self.type)
        if root in _BITS:
            return _wrap_overflow(acc * value, _BITS[root])
        with np.errstate(all="ignore"):
            number = np.float32 if root is Root.FLOAT else np.float64
            return float(number(acc) * number(value))

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        if acc is None or value is None:
            return acc
        root = self.type.root
        if root in (Root.FLOAT, Root.DOUBLE):
            with np.errstate(all="ignore"):
                number = np.float32 if root is Root.FLOAT else np.float64
                return float(number(acc) / number(value))
        if value == 0:
            raise divided_by_zero(self.spec)
        if root in _BITS:
            quotient = abs(acc) // abs(value)
            return _wrap_overflow(quotient if (acc < 0) == (value < 0) else -quotient, _BITS[root])
        numerator, divisor = unscaled(acc, self.type), unscaled(value, self.type)
        if not _terminates(numerator, divisor):
            raise InvalidInputError(
                f"column {self.spec.column!r}: product cannot take {value} back from {acc}: the quotient never ends"
            )
        sign = -1 if (numerator < 0) != (divisor < 0) else 1
        exact = abs(numerator) * 10**self.type.scale
        return _decimal_or_none(sign * _round_half_up(exact, abs(divisor)), self.type)


def _wrap_overflow(value: int, bits: int) -> int:
    """Wrap the integer as Java's fixed-width arithmetic does."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def unscaled(value: Decimal, t: DataType) -> int:
    """Return the unscaled integer of a decimal that may have more digits than its precision (sums of up to 18 digits)."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0") * 10 ** (exponent + t.scale)
    return -int(number) if sign else int(number)


def _decimal_or_none(unscaled_value: int, t: DataType) -> Decimal | None:
    """Return the decimal, or null when it has more digits than the precision, as Java's Decimal.fromBigDecimal."""
    return None if abs(unscaled_value) >= 10**t.precision else decimal_of(unscaled_value, t)


def _round_half_up(numerator: int, divisor: int) -> int:
    """Round the quotient to the nearest integer, ties away from zero; `divisor` > 0."""
    quotient = (2 * abs(numerator) + divisor) // (2 * divisor)
    return -quotient if numerator < 0 else quotient


def _terminates(numerator: int, divisor: int) -> bool:
    """Return True when the decimal expansion of the quotient ends."""
    rest = abs(divisor) // math.gcd(numerator, divisor)
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


class _IgnoreRetract(ScalarFunction):
    def __init__(self, inner: ScalarFunction) -> None:
        super().__init__(inner.spec)
        self._inner = inner

    def reset(self) -> None:
        self._inner.reset()

    def agg(self, acc: Any, value: Any) -> Any:
        return self._inner.agg(acc, value)

    # agg_reversed stays the general one: Java's wrapper does not ask the wrapped function for its own.

    def retract(self, acc: Any, value: Any) -> Any:
        return acc


class _PrimaryKey(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        return value

    def retract(self, acc: Any, value: Any) -> Any:
        return value


class _LastValue(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        return value

    def retract(self, acc: Any, value: Any) -> Any:
        return None


class _LastNonNull(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        return acc if value is None else value

    def retract(self, acc: Any, value: Any) -> Any:
        return acc if value is None else None


class _FirstValue(ScalarFunction):
    _seen = False

    def reset(self) -> None:
        self._seen = False

    def agg(self, acc: Any, value: Any) -> Any:
        if self._seen:
            return acc
        self._seen = True
        return value


class _FirstNonNull(ScalarFunction):
    _seen = False

    def reset(self) -> None:
        self._seen = False

    def agg(self, acc: Any, value: Any) -> Any:
        if self._seen or value is None:
            return acc
        self._seen = True
        return value


class _Extreme(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        if not is_ordered(self.type):
            raise not_comparable(self.spec)
        below = order_of(acc, self.type) < order_of(value, self.type)
        return value if below == (self.spec.name == "max") else acc


class _Bool(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return (acc and value) if self.spec.name == "bool_and" else (acc or value)


_CLASSES: dict[str, Callable[[FunctionSpec], ScalarFunction]] = {
    "primary-key": _PrimaryKey,
    "sum": Sum,
    "product": Product,
    "max": _Extreme,
    "min": _Extreme,
    "last_value": _LastValue,
    "last_non_null_value": _LastNonNull,
    "first_value": _FirstValue,
    "first_non_null_value": _FirstNonNull,
    "listagg": ListAgg,
    "bool_and": _Bool,
    "bool_or": _Bool,
    "collect": Collect,
    "merge_map": MergeMap,
    "merge_map_with_keytime": MergeMapWithKeyTime,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
    "rbm32": Roaring32,
}


def make_scalar_function(spec: FunctionSpec) -> ScalarFunction:
    """Make the record-at-a-time form of a column's function."""
    function = _CLASSES[spec.name](spec)
    return _IgnoreRetract(function) if spec.ignore_retract else function
