"""Internal values (see ``lakeidx.types``) to and from Arrow columns and JSON: the slow, plain side of the codecs.

Nothing here is for a data path; columns go through the vectorised codecs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.types import (
    NESTED_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    Root,
    timestamp_unit,
    to_arrow,
)

# Wide enough for 38 digits shifted by any scale; the default context would round at 28.
_EXACT = Context(prec=120)
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_INT64 = range(-(2**63), 2**63)


def unscaled_of(value: Decimal, t: DataType) -> int:
    """Return the unscaled integer of a DECIMAL value.

    errors   InvalidInputError for NaN/infinity, more fraction digits than the scale or more digits than the precision
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        raise InvalidInputError(f"{value!r} is not a value of {t}")
    try:
        scaled = value.scaleb(t.scale, _EXACT)
    except InvalidOperation as e:
        raise InvalidInputError(f"{value!r} is not a value of {t}") from e
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**t.precision:
        raise InvalidInputError(f"{value} does not fit {t}")
    return unscaled


def decimal_of(unscaled: int, t: DataType) -> Decimal:
    """Return the DECIMAL value of an unscaled integer, with the type's full scale."""
    return Decimal(unscaled).scaleb(-t.scale, _EXACT)


def timestamp_to_arrow_int(value: tuple[int, int], precision: int) -> int:
    """Return ``(epoch millis, nanos of the milli)`` as the integer Arrow keeps for this precision.

    errors   InvalidInputError when digits would be lost or the instant does not fit 64 bits
    """
    millis, nanos = value
    per_milli = _PER_MILLI[timestamp_unit(precision)]
    rest, lost = divmod(nanos, 1_000_000 // per_milli)
    out = millis * per_milli + rest
    if lost or not 0 <= nanos < 1_000_000 or out not in _INT64:
        raise InvalidInputError(f"the instant {value} does not fit a timestamp of precision {precision}")
    return out


def arrow_int_to_timestamp(value: int, precision: int) -> tuple[int, int]:
    """Convert back what `timestamp_to_arrow_int` made."""
    per_milli = _PER_MILLI[timestamp_unit(precision)]
    millis, rest = divmod(value, per_milli)
    return millis, rest * (1_000_000 // per_milli)


def arrow_to_internal(column: pa.Array | pa.ChunkedArray, t: DataType) -> list[Any]:
    """Return all values of an Arrow column as internal values.

    column   of ``to_arrow(t)`` or anything Arrow casts to it without loss
    errors   InvalidInputError when it does not cast
    """
    if isinstance(column, pa.ChunkedArray):
        return [v for chunk in column.chunks for v in arrow_to_internal(chunk, t)]
    if column.type != to_arrow(t) and t.root not in NESTED_ROOTS:
        try:
            column = column.cast(to_arrow(t))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise InvalidInputError(f"a column of {column.type} is not {t}: {e}") from e
    if t.root in TIMESTAMP_ROOTS:
        ints = column.cast(pa.int64()).to_pylist()
        return [None if v is None else arrow_int_to_timestamp(v, t.precision) for v in ints]
    if t.root in (Root.DATE, Root.TIME):
        return list(column.cast(pa.int32()).to_pylist())
    if t.root is Root.VARIANT:
        return [None if v is None else (v["value"], v["metadata"]) for v in column.to_pylist()]
    if t.root is Root.ROW:
        return _structs(column, t)
    if t.root in NESTED_ROOTS:
        return _lists(column, t)
    return list(column.to_pylist())


def _structs(column: pa.Array, t: DataType) -> list[Any]:
    if not pa.types.is_struct(column.type) or column.type.num_fields != len(t.fields):
        raise InvalidInputError(f"a column of {column.type} is not {t}")
    children = [arrow_to_internal(column.field(i), f.type) for i, f in enumerate(t.fields)]
    valid = column.is_valid().to_pylist()
    rows: list[Any] = list(zip(*children, strict=True)) if children else [()] * len(column)
    return [row if ok else None for row, ok in zip(rows, valid, strict=True)]


def _lists(column: pa.Array, t: DataType) -> list[Any]:
    assert t.element is not None
    is_map = pa.types.is_map(column.type)
    if is_map != (t.root is not Root.ARRAY) or not (
        is_map or pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    ):
        raise InvalidInputError(f"a column of {column.type} is not {t}")
    bounds = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    lo, hi = (bounds[0], bounds[-1]) if bounds else (0, 0)
    if is_map:
        key_type, item_type = map_types(t)
        keys = arrow_to_internal(column.keys.slice(lo, hi - lo), key_type)
        flat: list[Any] = list(zip(keys, arrow_to_internal(column.items.slice(lo, hi - lo), item_type), strict=True))
    else:
        flat = arrow_to_internal(column.values.slice(lo, hi - lo), t.element)
    return [flat[bounds[i] - lo : bounds[i + 1] - lo] if ok else None for i, ok in enumerate(valid)]


def map_types(t: DataType) -> tuple[DataType, DataType]:
    """Return the key and value type of a MAP, or of the MAP (element to INT NOT NULL) that a MULTISET is."""
    assert t.element is not None
    if t.root is Root.MULTISET:
        return t.element.with_nullable(False), DataType(Root.INT, nullable=False)
    assert t.key is not None
    return t.key, t.element


def internal_to_arrow(values: Sequence[Any], t: DataType) -> pa.Array:
    """Build one Arrow array of ``to_arrow(t)`` from internal values.

    errors   InvalidInputError for a value that is not of the type
    """
    convert = _python_form(t)
    try:
        return pa.array([None if v is None else convert(v) for v in values], to_arrow(t))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as e:
        raise InvalidInputError(f"values are not of {t}: {e}") from e


def _python_form(t: DataType) -> Callable[[Any], Any]:
    """Return the function from an internal value to what ``pa.array(..., to_arrow(t))`` takes."""
    if t.root in TIMESTAMP_ROOTS:
        return lambda v: timestamp_to_arrow_int(v, t.precision)
    if t.root is Root.DECIMAL:
        return lambda v: decimal_of(unscaled_of(v, t), t)
    if t.root is Root.VARIANT:
        return lambda v: {"value": v[0], "metadata": v[1]}
    if t.root is Root.ARRAY:
        assert t.element is not None
        element = _or_none(_python_form(t.element))
        return lambda v: [element(e) for e in v]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = (_or_none(_python_form(x)) for x in map_types(t))
        return lambda v: [(key(k), item(e)) for k, e in v]
    if t.root is Root.ROW:
        fields = [(f.name, _or_none(_python_form(f.type))) for f in t.fields]
        return lambda v: {name: convert(x) for (name, convert), x in zip(fields, v, strict=True)}
    return lambda v: v


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda v: None if v is None else convert(v)
