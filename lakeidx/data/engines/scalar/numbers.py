"""sum and product one record at a time, in Java's arithmetic.

source   org.apache.paimon.mergetree.compact.aggregate.{FieldSumAgg, FieldProductAgg},
         org.apache.paimon.utils.DecimalUtils, release 1.4.2
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from lakeidx.codec.values import decimal_of
from lakeidx.data.engines.scalar.base import ScalarFunction, divided_by_zero
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
