"""Aggregate functions one record at a time, on internal values: those whose steps are no arithmetic of fixed width.

Each follows its Java class step by step, including what it does with an older record (`agg_reversed`). The vectorised side calls
them for the keys that have several records.

source   org.apache.paimon.mergetree.compact.aggregate.Field*Agg, org.apache.paimon.utils.DecimalUtils, release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np

from lakeidx.codec.values import decimal_of
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.scalar.base import ScalarFunction, divided_by_zero
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

#: Decimals of 38 digits, shifted by any scale.
_EXACT = Context(prec=120)
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


class Product(ScalarFunction):
    """Numbers multiplied; nulls are skipped."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        root = self.type.root
        if root is Root.DECIMAL:
            exact = _unscaled(acc, self.type) * _unscaled(value, self.type)
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
        numerator, divisor = _unscaled(acc, self.type), _unscaled(value, self.type)
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


def _unscaled(value: Decimal, t: DataType) -> int:
    """Return the unscaled integer of a decimal that may exceed its precision (a sum, before its function was altered)."""
    return int(value.scaleb(t.scale, _EXACT))


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
    """A function whose retracts were left out; Java's wrapper does not ask it how it takes an older record in."""

    def __init__(self, inner: ScalarFunction) -> None:
        super().__init__(inner.spec)
        self._inner = inner

    def agg(self, acc: Any, value: Any) -> Any:
        return self._inner.agg(acc, value)


_CLASSES: dict[str, Callable[[FunctionSpec], ScalarFunction]] = {
    "product": Product,
    "listagg": ListAgg,
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
