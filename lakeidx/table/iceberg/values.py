"""Types and values as Iceberg has them.

source   org.apache.paimon.iceberg.metadata.IcebergDataField, org.apache.paimon.iceberg.manifest.IcebergConversions,
         org.apache.paimon.table.SpecialFields, release 1.4.2; https://iceberg.apache.org/spec
"""

from __future__ import annotations

import struct
from typing import Any

from lakeidx.codec.values import unscaled_of
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Field, Root

#: Ids of elements, keys and values are made from that of their column: the middle, and how many a column may have.
_NESTED_IDS, _NESTED_DEPTH = (2**31 - 1) // 4, 1024
_INTS = (Root.TINYINT, Root.SMALLINT, Root.INT)
_PLAIN = {
    Root.BOOLEAN: ("boolean", "<?", "boolean"),
    Root.TINYINT: ("int", "<i", "int"),
    Root.SMALLINT: ("int", "<i", "int"),
    Root.INT: ("int", "<i", "int"),
    Root.BIGINT: ("long", "<q", "long"),
    Root.FLOAT: ("float", "<f", "float"),
    Root.DOUBLE: ("double", "<d", "double"),
    Root.DATE: ("date", "<i", {"type": "int", "logicalType": "date"}),
}
"""Of each type: its name, its bytes, its Avro type."""


def iceberg_field(field: Field) -> dict[str, Any]:
    """Return a column as an Iceberg schema has it.

    errors   InvalidInputError for a type that Java refuses
    """
    try:
        kind = _type(field.type, field.id, 0)
    except ValueError as e:
        raise InvalidInputError(
            f"column {field.name!r} is {field.type}, which Iceberg metadata cannot have: {e}; set "
            "metadata.iceberg.storage to disabled, or give the column another type"
        ) from None
    out: dict[str, Any] = {"id": field.id, "name": field.name, "required": not field.type.nullable, "type": kind}
    return out if field.description is None else out | {"doc": field.description}


def _type(t: DataType, column: int, depth: int) -> Any:
    if t.root in _PLAIN:
        return _PLAIN[t.root][0]
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        return "string" if t.root in STRING_ROOTS else "binary"
    if t.root is Root.DECIMAL:
        return f"decimal({t.precision}, {t.scale})"
    if t.root in TIMESTAMP_ROOTS:
        if t.precision < 3:
            raise ValueError("a timestamp needs a precision of 3 to 9")
        return ("timestamp" if t.root is Root.TIMESTAMP else "timestamptz") + ("_ns" if t.precision > 6 else "")
    inner, above = depth + 1, _NESTED_IDS + column * _NESTED_DEPTH
    if t.root is Root.ARRAY and t.element is not None:
        return {"type": "list", "element-id": above + inner, "element-required": not t.element.nullable,
                "element": _type(t.element, column, inner)}  # fmt: skip
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        return {"type": "map", "key-id": _NESTED_IDS - column * _NESTED_DEPTH - inner, "key": _type(t.key, column, inner),
                "value-id": above + inner, "value-required": not t.element.nullable,
                "value": _type(t.element, column, inner)}  # fmt: skip
    if t.root is Root.ROW:
        return {"type": "struct", "fields": [iceberg_field(f) for f in t.fields]}
    raise ValueError("there is no such type")


def bound(value: Any, t: DataType) -> bytes:
    """Return an internal value as Iceberg stores a bound."""
    if t.root in _PLAIN:
        return struct.pack(_PLAIN[t.root][1], value)
    if t.root in STRING_ROOTS:
        return str(value).encode()
    if t.root is Root.DECIMAL:
        return _decimal_bytes(value, t)
    if t.root in TIMESTAMP_ROOTS:
        return struct.pack("<q", _ticks(value, t))
    return bytes(value)


def has_bounds(t: DataType) -> bool:
    """Return True for a type that Iceberg has minima and maxima of."""
    return t.root in _PLAIN or t.root in TIMESTAMP_ROOTS or t.root in STRING_ROOTS or t.root in BYTES_ROOTS or (
        t.root is Root.DECIMAL
    )  # fmt: skip


def order_of_bound(data: bytes, t: DataType) -> Any:
    """Return what a stored bound sorts by, for bounds of one type."""
    if t.root in _PLAIN:
        return struct.unpack(_PLAIN[t.root][1], data)[0]
    if t.root is Root.DECIMAL:
        return int.from_bytes(data, "big", signed=True)
    return struct.unpack("<q", data)[0] if t.root in TIMESTAMP_ROOTS else data


def partition_type(t: DataType) -> Any:
    """Return the Avro type of a partition column in manifests, as Java writes it."""
    if t.root in _PLAIN:
        kind: Any = _PLAIN[t.root][2]
    elif t.root in STRING_ROOTS:
        kind = "string"
    elif t.root is Root.DECIMAL:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
    elif t.root in TIMESTAMP_ROOTS:
        local = "" if t.root is Root.TIMESTAMP else "local-"
        kind = {"type": "long", "logicalType": f"{local}timestamp-{'millis' if t.precision <= 3 else 'micros'}"}
    else:
        kind = "bytes"
    return ["null", kind] if t.nullable else kind


def partition_value(value: Any, t: DataType) -> Any:
    """Return an internal value as a manifest has it in its partition."""
    if value is None:
        return None
    if t.root is Root.DECIMAL:
        return _decimal_bytes(value, t)
    if t.root in TIMESTAMP_ROOTS:
        return value[0] if t.precision <= 3 else value[0] * 1000 + value[1] // 1000
    return value


def bound_of_partition(value: Any, t: DataType) -> bytes:
    """Return a value of `partition_value` as Iceberg stores a bound."""
    if t.root in TIMESTAMP_ROOTS:
        per_unit = 1000 if t.precision <= 3 or t.precision > 6 else 1
        return struct.pack("<q", value * per_unit)
    return bytes(value) if t.root is Root.DECIMAL else bound(value, t)


def _decimal_bytes(value: Any, t: DataType) -> bytes:
    number = unscaled_of(value, t)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _ticks(value: tuple[int, int], t: DataType) -> int:
    """Return a timestamp in microseconds, of a precision above 6 in nanoseconds."""
    millis, nanos = value
    return millis * 1_000_000 + nanos if t.precision > 6 else millis * 1000 + nanos // 1000
