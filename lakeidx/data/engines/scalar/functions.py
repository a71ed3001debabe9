"""Aggregate functions one record at a time, on internal values: the plain twin of ``functions``.

Each follows its Java class step by step, including what it does with an older record (`agg_reversed`) and with state that
outlives a removed row. The functions whose values are no fixed-width numbers (listagg, collect, the maps and nested tables)
have no other form: the vectorised side calls these for the keys that have several records.

source   org.apache.paimon.mergetree.compact.aggregate.Field*Agg, org.apache.paimon.utils.{DecimalUtils, InternalRowUtils},
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.scalar.base import ScalarFunction, is_ordered, not_comparable, order_of
from lakeidx.data.engines.scalar.collections import (
    Collect,
    ListAgg,
    MergeMap,
    MergeMapWithKeyTime,
    NestedPartialUpdate,
    NestedUpdate,
    Roaring32,
)
from lakeidx.data.engines.scalar.numbers import Product, Sum


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
