"""Aggregate functions one record at a time, on internal values: the plain twin of ``functions``.

Each follows its Java class step by step, including what it does with an older record (`agg_reversed`) and with state that
outlives a removed row. The functions whose values are no fixed-width numbers (listagg, collect, the maps and nested tables)
have no other form: the vectorised side calls these for the keys that have several records.

source   org.apache.paimon.mergetree.compact.aggregate.Field*Agg, org.apache.paimon.utils.{DecimalUtils, InternalRowUtils},
         release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyroaring

from lakeidx.codec.binary_row import encode_row
from lakeidx.codec.murmur import hash_words
from lakeidx.codec.values import decimal_of
from lakeidx.data.engines.java_order import hash_code, identity, java_order, java_order_computed
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_ORDERED_ROOTS = (
    frozenset({Root.DECIMAL, Root.FLOAT, Root.DOUBLE, Root.DATE, Root.TIME})
    | frozenset(_BITS)
    | TIMESTAMP_ROOTS
    | STRING_ROOTS
    | BYTES_ROOTS
)


class ScalarFunction:
    """One column's aggregate function with the state it keeps per key."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec
        self.type = spec.type

    def reset(self) -> None:
        """Begin a new key."""

    def agg(self, acc: Any, value: Any) -> Any:
        """Take in a value."""
        raise NotImplementedError

    def agg_reversed(self, acc: Any, value: Any) -> Any:
        """Take in a value that is older than what was accumulated."""
        return self.agg(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        """Take a value back.

        errors   InvalidInputError when the function cannot
        """
        raise cannot_retract(self.spec)


def cannot_retract(spec: FunctionSpec) -> InvalidInputError:
    """The error of a -U or -D row that meets a function without retraction."""
    return InvalidInputError(
        f"column {spec.column!r}: aggregate function {spec.name} cannot take back a row (-U or -D); set option "
        f"'fields.{spec.column}.ignore-retract' = true to skip such rows"
    )


def not_comparable(spec: FunctionSpec) -> InvalidInputError:
    """The error of max and min on a type without order."""
    return InvalidInputError(
        f"column {spec.column!r}: aggregate function {spec.name} cannot compare values of {spec.type}"
    )


def divided_by_zero(spec: FunctionSpec) -> InvalidInputError:
    """The error of taking a zero factor back."""
    return InvalidInputError(f"column {spec.column!r}: aggregate function product cannot take a factor of 0 back")


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
        if self.type.root not in _ORDERED_ROOTS:
            raise not_comparable(self.spec)
        below = order_of(acc, self.type) < order_of(value, self.type)
        return value if below == (self.spec.name == "max") else acc


def is_ordered(t: DataType) -> bool:
    """True for types whose values max and min can compare (BOOLEAN is not among them)."""
    return t.root in _ORDERED_ROOTS


def order_of(value: Any, t: DataType) -> Any:
    """What a non-null value compares by in Java: strings by UTF-8 bytes, floats with -0.0 < 0.0 and NaN on top."""
    if t.root in STRING_ROOTS:
        return value.encode("utf-8")
    if t.root in (Root.FLOAT, Root.DOUBLE):
        if value != value:
            return (1, 0.0, 0)
        return (0, value, 0 if value != 0 or not np.signbit(value) else -1)
    return value


class _Bool(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return (acc and value) if self.spec.name == "bool_and" else (acc or value)


class _Sum(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return self._fit(acc, value, 1)

    def retract(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        if acc is None:
            return (
                decimal_or_none(-unscaled(value, self.type), self.type)
                if self.type.root is Root.DECIMAL
                else (self._fit(None, value, -1))
            )
        return self._fit(acc, value, -1)

    def _fit(self, acc: Any, value: Any, sign: int) -> Any:
        root = self.type.root
        if root is Root.DECIMAL:
            result = unscaled(acc, self.type) + sign * unscaled(value, self.type)
            # Up to 18 digits Java adds longs and does not look at the precision; only a long overflow does.
            if self.type.precision <= 18 and -(2**63) <= result < 2**63:
                return decimal_of(result, self.type)
            return decimal_or_none(result, self.type)
        if root in _BITS:
            return wrap((0 if acc is None else acc) + sign * value, _BITS[root])
        with np.errstate(all="ignore"):
            number = np.float32 if root is Root.FLOAT else np.float64
            if acc is None:
                return float(-number(value))
            return float(number(acc) + number(value) if sign > 0 else number(acc) - number(value))


class _Product(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        root = self.type.root
        if root is Root.DECIMAL:
            exact = unscaled(acc, self.type) * unscaled(value, self.type)
            return decimal_or_none(round_half_up(exact, 10**self.type.scale), self.type)
        if root in _BITS:
            return wrap(acc * value, _BITS[root])
        with np.errstate(all="ignore"):
            number = np.float32 if root is Root.FLOAT else np.float64
            return float(number(acc) * number(value))

    def retract(self, acc: Any, value: Any) -> Any:
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
            return wrap(quotient if (acc < 0) == (value < 0) else -quotient, _BITS[root])
        numerator, divisor = unscaled(acc, self.type), unscaled(value, self.type)
        if not terminates(numerator, divisor):
            raise InvalidInputError(
                f"column {self.spec.column!r}: product cannot take {value} back from {acc}: the quotient never ends"
            )
        sign = -1 if (numerator < 0) != (divisor < 0) else 1
        exact = abs(numerator) * 10**self.type.scale
        return decimal_or_none(sign * round_half_up(exact, abs(divisor)), self.type)


def wrap(value: int, bits: int) -> int:
    """The integer as Java's fixed-width arithmetic leaves it."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def unscaled(value: Decimal, t: DataType) -> int:
    """The unscaled integer of a decimal that may have more digits than its precision (sums of up to 18 digits)."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0") * 10 ** (exponent + t.scale)
    return -int(number) if sign else int(number)


def decimal_or_none(unscaled_value: int, t: DataType) -> Decimal | None:
    """The decimal, or null when it has more digits than the precision, as Java's Decimal.fromBigDecimal."""
    return None if abs(unscaled_value) >= 10**t.precision else decimal_of(unscaled_value, t)


def round_half_up(numerator: int, divisor: int) -> int:
    """The quotient rounded to the nearest integer, ties away from zero; `divisor` > 0."""
    quotient = (2 * abs(numerator) + divisor) // (2 * divisor)
    return -quotient if numerator < 0 else quotient


def terminates(numerator: int, divisor: int) -> bool:
    """True when the decimal expansion of the quotient ends."""
    rest = abs(divisor) // math.gcd(numerator, divisor)
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


class _ListAgg(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        if not value or not acc:
            return acc or value
        delimiter = self.spec.delimiter
        if not self.spec.distinct:
            return acc + delimiter + value
        # An empty delimiter joins with nothing but splits at blanks.
        seen = set(acc.split(delimiter or " "))
        for token in value.split(delimiter or " "):
            if token and token not in seen:
                seen.add(token)
                acc = acc + delimiter + token
        return acc


class _Collect(ScalarFunction):
    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.element is not None
        self._element = spec.type.element

    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None and value is None:
            return None
        if not self.spec.distinct:
            if acc is None or value is None:
                return value if acc is None else acc
            return [*acc, *value]
        if self._element.is_nested:
            # What was accumulated is taken as distinct already.
            out = list(acc or ())
            seen = {identity(v, self._element) for v in out}
            for v in value or ():
                if (key := identity(v, self._element)) not in seen:
                    seen.add(key)
                    out.append(v)
            return out
        distinct = {identity(v, self._element): v for v in reversed([*(acc or ()), *(value or ())])}
        first_seen = dict.fromkeys(identity(v, self._element) for v in [*(acc or ()), *(value or ())])
        return java_order((distinct[k] for k in first_seen), lambda v: hash_code(v, self._element))

    def agg_reversed(self, acc: Any, value: Any) -> Any:
        return self.agg(acc, value)

    def retract(self, acc: Any, value: Any) -> Any:
        if acc is None or not value:
            return acc
        left = [identity(v, self._element) for v in value]
        out = []
        for v in acc:
            key = identity(v, self._element)
            if key in left:
                left.remove(key)
            else:
                out.append(v)
        return out


class _MergeMap(ScalarFunction):
    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.key is not None
        self._key = spec.type.key

    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        merged: dict[Any, tuple[Any, Any]] = {}
        for k, v in (*acc, *value):
            merged[identity(k, self._key)] = (k, v)
        return self._ordered(merged)

    def retract(self, acc: Any, value: Any) -> Any:
        if acc is None or not value:
            return acc
        gone = {identity(k, self._key) for k, _ in value}
        return self._ordered({i: (k, v) for k, v in acc if (i := identity(k, self._key)) not in gone})

    def _ordered(self, merged: dict[Any, tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return java_order(merged.values(), lambda pair: hash_code(pair[0], self._key))


class _MergeMapWithKeyTime(_MergeMap):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        at = self.spec.time_field
        merged = {identity(k, self._key): (k, v) for k, v in acc}
        for k, row in value:
            key = identity(k, self._key)
            if row is None:
                merged.pop(key, None)
                continue
            if row[at] is None:
                continue
            old = merged[key][1] if key in merged else None
            # Java compares the texts by UTF-16 code units.
            if old is None or old[at] is None or _utf16(row[at]) > _utf16(old[at]):
                merged[key] = (k, row)
        return self._ordered(merged)

    def retract(self, acc: Any, value: Any) -> Any:
        raise cannot_retract(self.spec)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


class _Nested(ScalarFunction):
    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.element is not None
        self._row = spec.type.element
        self._key_types = [self._row.fields[i].type for i in spec.nested_key]

    def _key(self, row: Any) -> bytes:
        return encode_row([row[i] for i in self.spec.nested_key], self._key_types)

    @staticmethod
    def _ordered(rows: dict[bytes, Any]) -> list[Any]:
        keys = java_order(rows, hash_words)
        return [rows[k] for k in keys]


class _NestedUpdate(_Nested):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        if len(acc) >= self.spec.count_limit:
            return acc
        room = self.spec.count_limit - len(acc)
        rows = [r for r in acc if r is not None] + [r for r in value if r is not None][:room]
        return self._ordered({self._key(r): r for r in rows}) if self.spec.nested_key else rows

    def retract(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        rows = [r for r in acc if r is not None]
        gone = [r for r in value if r is not None]
        if not self.spec.nested_key:
            out = {identity(r, self._row) for r in gone}
            return [r for r in rows if identity(r, self._row) not in out]
        # The map is built before rows leave it, so its order is that of its full size.
        kept = {self._key(r): r for r in rows}
        keys = {self._key(r) for r in gone}
        return [kept[k] for k in java_order(kept, hash_words) if k not in keys]


class _NestedPartialUpdate(_Nested):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        rows: dict[bytes, tuple[Any, ...]] = {}
        keyed = [(self._key(row), row) for row in (*acc, *value) if row is not None]
        for key, row in keyed:
            old = rows.get(key, (None,) * len(row))
            rows[key] = tuple(o if n is None else n for o, n in zip(old, row, strict=True))
        return [rows[key] for key in java_order_computed((key for key, _ in keyed), hash_words)]


class _Roaring32(ScalarFunction):
    def agg(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        merged = pyroaring.BitMap.deserialize(acc) | pyroaring.BitMap.deserialize(value)
        merged.run_optimize()
        return merged.serialize()


_CLASSES: dict[str, Callable[[FunctionSpec], ScalarFunction]] = {
    "primary-key": _PrimaryKey,
    "sum": _Sum,
    "product": _Product,
    "max": _Extreme,
    "min": _Extreme,
    "last_value": _LastValue,
    "last_non_null_value": _LastNonNull,
    "first_value": _FirstValue,
    "first_non_null_value": _FirstNonNull,
    "listagg": _ListAgg,
    "bool_and": _Bool,
    "bool_or": _Bool,
    "collect": _Collect,
    "merge_map": _MergeMap,
    "merge_map_with_keytime": _MergeMapWithKeyTime,
    "nested_update": _NestedUpdate,
    "nested_partial_update": _NestedPartialUpdate,
    "rbm32": _Roaring32,
}


def make_scalar_function(spec: FunctionSpec) -> ScalarFunction:
    """The record-at-a-time form of a column's function."""
    function = _CLASSES[spec.name](spec)
    return _IgnoreRetract(function) if spec.ignore_retract else function
