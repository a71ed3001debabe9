"""Base of aggregate functions that take one record at a time: errors, and which values have an order."""

from __future__ import annotations

from typing import Any

from lakeidx.data.engines.options import FunctionSpec
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_ORDERED_ROOTS = (
    frozenset({Root.DECIMAL, Root.FLOAT, Root.DOUBLE, Root.DATE, Root.TIME})
    | INT_ROOTS
    | TIMESTAMP_ROOTS
    | STRING_ROOTS
    | BYTES_ROOTS
)


class ScalarFunction:
    """One column's aggregate function."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec
        self.type = spec.type

    def agg(self, acc: Any, value: Any) -> Any:
        """Aggregate a value."""
        raise NotImplementedError

    def agg_reversed(self, acc: Any, value: Any) -> Any:
        """Aggregate a value that is older than those accumulated."""
        return self.agg(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        """Retract a value.

        errors   InvalidInputError when the function cannot
        """
        raise cannot_retract(self.spec)


def cannot_retract(spec: FunctionSpec) -> InvalidInputError:
    """Make the error of a -U or -D row that meets a function without retraction."""
    return InvalidInputError(
        f"column {spec.column!r}: aggregate function {spec.name} cannot retract a row (-U or -D); set option "
        f"'fields.{spec.column}.ignore-retract' = true to skip such rows"
    )


def not_comparable(spec: FunctionSpec) -> InvalidInputError:
    """Make the error of max and min on a type without order."""
    return InvalidInputError(
        f"column {spec.column!r}: aggregate function {spec.name} cannot compare values of {spec.type}"
    )


def divided_by_zero(spec: FunctionSpec) -> InvalidInputError:
    """Make the error of taking a zero factor back."""
    return InvalidInputError(f"column {spec.column!r}: aggregate function product cannot retract a factor of 0")


def is_ordered(t: DataType) -> bool:
    """Return True for types whose values max and min can compare (BOOLEAN is not among them)."""
    return t.root in _ORDERED_ROOTS
