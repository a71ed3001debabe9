"""Paimon's order of values and keys, one comparison at a time: the plain twin of ``order_key``.

==================  ==================================================================
type                order
==================  ==================================================================
null                before every value
BOOLEAN             false < true
integers            numeric; DATE and TIME too
FLOAT, DOUBLE       numeric, but -0.0 < 0.0 and NaN (any bits) equal to itself, largest
strings, binary     unsigned bytes (UTF-8), a prefix first
DECIMAL             numeric
TIMESTAMP           millis, then nanos of the milli
==================  ==================================================================

source   org.apache.paimon.codegen generated RecordComparator, RowCompactedSerializer.SliceComparator; release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, Root


def compare_values(a: Any, b: Any, t: DataType) -> int:
    """Order of two internal values of a type: negative, 0 or positive.

    errors   InvalidInputError for types without order (nested ones, VARIANT)
    """
    check_orderable(t)
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        a, b = _float_key(a), _float_key(b)
    return int(a > b) - int(a < b)


def compare_rows(a: Sequence[Any], b: Sequence[Any], types: Sequence[DataType]) -> int:
    """Order of two keys, field by field."""
    for x, y, t in zip(a, b, types, strict=True):
        order = compare_values(x, y, t)
        if order:
            return order
    return 0


def check_orderable(t: DataType) -> None:
    """Refuse types that cannot be part of a key.

    errors   InvalidInputError for nested types and VARIANT
    """
    if t.is_nested or t.root is Root.VARIANT:
        raise InvalidInputError(f"values of {t} have no order")


def _float_key(value: float) -> tuple[bool, float, bool]:
    """Return a sort key with NaN last and -0.0 before 0.0."""
    if math.isnan(value):
        return True, 0.0, False
    return False, value, math.copysign(1.0, value) > 0
