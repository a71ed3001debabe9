"""Data types as Arrow types.

TIMESTAMP p<=3 ``timestamp[ms]``, p<=6 ``[us]``, else ``[ns]``; LTZ the same with ``tz=UTC``; TIME ``time32[ms]``; VARIANT
``struct<value: binary, metadata: binary>``; MULTISET ``map<element, int32>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.types.model import MAX_LENGTH, TIMESTAMP_ROOTS, DataType, Field, Root
from lakeidx.types.text import format_type

_ARROW_SIMPLE = {
    Root.CHAR: pa.string(),
    Root.VARCHAR: pa.string(),
    Root.BINARY: pa.binary(),
    Root.VARBINARY: pa.binary(),
    Root.BOOLEAN: pa.bool_(),
    Root.TINYINT: pa.int8(),
    Root.SMALLINT: pa.int16(),
    Root.INT: pa.int32(),
    Root.BIGINT: pa.int64(),
    Root.FLOAT: pa.float32(),
    Root.DOUBLE: pa.float64(),
    Root.DATE: pa.date32(),
    Root.TIME: pa.time32("ms"),
    Root.VARIANT: pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]),
}


def timestamp_unit(precision: int) -> str:
    """Return Arrow's unit for a TIMESTAMP of this precision: ms, us or ns."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


@cache
def to_arrow(t: DataType) -> pa.DataType:
    """Return the Arrow type that columns of this type have everywhere in lakeidx."""
    simple = _ARROW_SIMPLE.get(t.root)
    if simple is not None:
        return simple
    if t.root is Root.DECIMAL:
        return pa.decimal128(t.precision, t.scale)
    if t.root in TIMESTAMP_ROOTS:
        return pa.timestamp(timestamp_unit(t.precision), tz="UTC" if t.root is Root.TIMESTAMP_LTZ else None)
    if t.root is Root.ARRAY:
        assert t.element is not None
        return pa.list_(pa.field("element", to_arrow(t.element), t.element.nullable))
    if t.root is Root.MULTISET:
        assert t.element is not None
        return pa.map_(to_arrow(t.element.with_nullable(False)), pa.field("value", pa.int32(), False))
    if t.root is Root.MAP:
        assert t.key is not None
        assert t.element is not None
        return pa.map_(to_arrow(t.key), pa.field("value", to_arrow(t.element), t.element.nullable))
    return pa.struct([_to_arrow_field(f) for f in t.fields])


_VARIANT = {b"variant": b"true"}
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], DataType], ...] = (
    (pa.types.is_boolean, DataType(Root.BOOLEAN)),
    (pa.types.is_int8, DataType(Root.TINYINT)),
    (lambda t: pa.types.is_int16(t) or pa.types.is_uint8(t), DataType(Root.SMALLINT)),
    (lambda t: pa.types.is_int32(t) or pa.types.is_uint16(t), DataType(Root.INT)),
    (lambda t: pa.types.is_int64(t) or pa.types.is_uint32(t), DataType(Root.BIGINT)),
    (pa.types.is_uint64, DataType(Root.DECIMAL, precision=20)),
    (lambda t: pa.types.is_float16(t) or pa.types.is_float32(t), DataType(Root.FLOAT)),
    (pa.types.is_float64, DataType(Root.DOUBLE)),
    (pa.types.is_date, DataType(Root.DATE)),
    (pa.types.is_time, DataType(Root.TIME, precision=3)),
    # Texts, and columns without any value.
    (lambda t: str(t) in ("string", "large_string", "string_view", "null"), DataType(Root.VARCHAR, length=MAX_LENGTH)),
    (
        lambda t: pa.types.is_fixed_size_binary(t) or str(t) in ("binary", "large_binary", "binary_view"),
        DataType(Root.VARBINARY, length=MAX_LENGTH),
    ),
    # As Spark marks them.
    (
        lambda t: pa.types.is_struct(t) and any(_VARIANT.items() <= (f.metadata or {}).items() for f in t),
        DataType(Root.VARIANT),
    ),
)
_UNIT_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow(t: pa.DataType, *, where: str = "type") -> DataType:
    """Return the type that a column of this Arrow type has in a new table: one that fits all its values.

    errors   InvalidInputError for types without such (durations, unions, decimals of more than 38 digits)
    """
    simple = next((ours for test, ours in _FROM_ARROW if test(t)), None)
    if simple is not None:
        return simple
    if pa.types.is_dictionary(t):
        return from_arrow(t.value_type, where=where)
    if pa.types.is_timestamp(t):
        return DataType(Root.TIMESTAMP if t.tz is None else Root.TIMESTAMP_LTZ, precision=_UNIT_PRECISION[t.unit])
    if pa.types.is_decimal(t) and t.precision <= 38 and t.scale >= 0:
        return DataType(Root.DECIMAL, precision=t.precision, scale=t.scale)
    if pa.types.is_struct(t):
        return DataType(
            Root.ROW, fields=tuple(Field(i, f.name, from_arrow(f.type, where=where)) for i, f in enumerate(t))
        )
    if pa.types.is_map(t):
        key = from_arrow(t.key_type, where=where).with_nullable(False)
        return DataType(Root.MAP, key=key, element=from_arrow(t.item_type, where=where))
    if is_list(t):
        return DataType(Root.ARRAY, element=from_arrow(t.value_type, where=where))
    raise InvalidInputError(f"{where}: a table cannot hold values of {t}")


def column_specs(columns: Iterable[pa.Field]) -> list[dict[str, Any]]:
    """Return columns as the JSON of a new table has them: those that rows of these Arrow columns need.

    errors   InvalidInputError naming the column, as `from_arrow`
    """
    return [{"name": c.name, "type": format_type(from_arrow(c.type, where=c.name))} for c in columns]


def is_list(t: pa.DataType) -> bool:
    """Return True for lists of any layout of Arrow; maps are none."""
    return pa.types.is_nested(t) and not pa.types.is_map(t) and hasattr(t, "value_field")


def _to_arrow_field(f: Field) -> pa.Field:
    """Convert a column to an Arrow field."""
    return pa.field(f.name, to_arrow(f.type), f.type.nullable)


def to_arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Convert columns to an Arrow schema, in order."""
    return pa.schema([_to_arrow_field(f) for f in fields])
