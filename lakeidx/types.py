"""Paimon's data types: as values, as schema-JSON text, and as Arrow types.

source   org.apache.paimon.types.DataTypeJsonParser / DataType.asSQLString, release 1.4.2

*Internal values* (what scalar codecs take and give): BOOLEAN bool; integers int; FLOAT/DOUBLE float; DECIMAL
``decimal.Decimal`` with the type's scale; CHAR/VARCHAR str; BINARY/VARBINARY bytes; DATE int (epoch days); TIME int (ms of
day); TIMESTAMP and TIMESTAMP_LTZ ``(epoch_millis, nanos_of_milli)``; ARRAY list; MAP and MULTISET list of ``(key, value)``
pairs; ROW tuple; VARIANT ``(value, metadata)`` bytes; null is ``None``.

Arrow types: TIMESTAMP p<=3 ``timestamp[ms]``, p<=6 ``[us]``, else ``[ns]``; LTZ the same with ``tz=UTC``; TIME ``time32[ms]``;
VARIANT ``struct<value: binary, metadata: binary>``; MULTISET ``map<element, int32>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

import pyarrow as pa

from lakeidx.errors import InvalidInputError, did_you_mean

MAX_LENGTH = 2147483647


class Root(StrEnum):
    """Type roots, by the word that schema JSON uses."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"


STRING_ROOTS = frozenset({Root.CHAR, Root.VARCHAR})
BYTES_ROOTS = frozenset({Root.BINARY, Root.VARBINARY})
INT_ROOTS = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})
NESTED_ROOTS = frozenset({Root.ARRAY, Root.MULTISET, Root.MAP, Root.ROW})
TIMESTAMP_ROOTS = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})


@dataclass(frozen=True, slots=True)
class Field:
    """A named column or a field of a ROW; `id` is stable over renames.

    unknown   keys that a later release gave it in the schema file; they do not make a type another one
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False)


FIELD_KEYS = frozenset({"id", "name", "type", "description", "defaultValue"})
"""Keys of a column or ROW field in a schema file."""


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon type.

    length     CHAR, VARCHAR, BINARY, VARBINARY (characters or bytes)
    precision  DECIMAL (digits), TIME, TIMESTAMP, TIMESTAMP_LTZ (fraction digits)
    scale      DECIMAL
    element    ARRAY and MULTISET element, MAP value
    key        MAP key
    fields     ROW fields
    """

    root: Root
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    element: DataType | None = None
    key: DataType | None = None
    fields: tuple[Field, ...] = field(default=())

    def with_nullable(self, nullable: bool) -> DataType:
        """Return the same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def is_nested(self) -> bool:
        """True for ARRAY, MULTISET, MAP and ROW."""
        return self.root in NESTED_ROOTS

    @property
    def is_compact(self) -> bool:
        """True when a DECIMAL or TIMESTAMP fits the fixed 8-byte slot of a row (p <= 18, p <= 3)."""
        if self.root is Root.DECIMAL:
            return self.precision <= 18
        return self.root in TIMESTAMP_ROOTS and self.precision <= 3

    def __str__(self) -> str:
        return _sql_name(self)


_SIMPLE = {r.value: r for r in (Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT,
                                Root.DOUBLE, Root.DATE, Root.VARIANT)}  # fmt: skip
_SIMPLE["INTEGER"] = Root.INT
_SIMPLE["DOUBLE PRECISION"] = Root.DOUBLE
_PATTERN = re.compile(
    r"^\s*(?P<word>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<args>\d+\s*(?:,\s*\d+\s*)?)\))?\s*(?P<rest>.*?)\s*$"
)
_LENGTH_ROOTS = {"CHAR": Root.CHAR, "VARCHAR": Root.VARCHAR, "BINARY": Root.BINARY, "VARBINARY": Root.VARBINARY}
_NOT_OURS = frozenset({"VECTOR", "BLOB", "GEOMETRY", "GEOGRAPHY"})
#: How nested types are written; names of theirs elsewhere come after.
_OBJECTS = {
    "ARRAY": '{"type": "ARRAY", "element": "INT"}',
    "MAP": '{"type": "MAP", "key": "STRING", "value": "INT"}',
    "MULTISET": '{"type": "MULTISET", "element": "STRING"}',
    "ROW": '{"type": "ROW", "fields": [{"name": "a", "type": "INT"}]}',
}
_OBJECTS |= {"LIST": _OBJECTS["ARRAY"], "STRUCT": _OBJECTS["ROW"], "RECORD": _OBJECTS["ROW"]}
#: Names that types have in other systems.
_MEANT = {
    "BOOLEAN": ("BOOL", "BIT"),
    "TINYINT": ("BYTE", "INT8"),
    "SMALLINT": ("SHORT", "INT16", "INT2", "UINT8"),
    "INT": ("INT32", "INT4", "UINT16", "MEDIUMINT", "SERIAL"),
    "BIGINT": ("LONG", "INT64", "UINT32", "BIGSERIAL"),
    "DECIMAL(20, 0)": ("UINT64",),
    "FLOAT": ("REAL", "FLOAT32", "HALFFLOAT", "FLOAT16"),
    "DOUBLE": ("FLOAT64", "FLOAT8"),
    "DECIMAL(10, 2)": ("NUMBER", "DECIMAL128", "DECIMAL256", "MONEY"),
    "STRING": (
        "TEXT",
        "UTF8",
        "LARGE_STRING",
        "JSON",
        "UUID",
        "ENUM",
        "NVARCHAR",
        "VARCHAR2",
        "CLOB",
        "CHARACTER",
        "OBJECT",
    ),
    "BYTES": ("BYTEA", "BLOB", "RAW", "LARGE_BINARY"),
    "DATE": ("DATE32", "DATE64"),
    "TIME(3)": ("TIME32", "TIME64"),
    "TIMESTAMP(6)": ("DATETIME", "DATETIME2", "TIMESTAMP_NTZ", "DATETIME64", "SMALLDATETIME"),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ("TIMESTAMPTZ", "TIMESTAMP_TZ", "DATETIMEOFFSET"),
}
_NAMES_ELSEWHERE = {other: ours for ours, others in _MEANT.items() for other in others}


def parse_type(value: str | Mapping[str, Any], *, where: str = "type") -> DataType:
    """Read a type as schema JSON writes it.

    value    text (``"DECIMAL(10, 2) NOT NULL"``) or an object (``{"type": "ARRAY", "element": ...}``)
    where    what the error message names, e.g. ``column 'amt'``
    errors   InvalidInputError for an unknown word or arguments out of range
    """
    if isinstance(value, str):
        return _parse_text(value, where)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise InvalidInputError(f"{where}: a type is text or an object with 'type', not {value!r}")
    words = value["type"].strip().upper().split()
    nullable = words[1:] != ["NOT", "NULL"]
    word = words[0] if words else ""
    if word == "ROW":
        fields = []
        for i, f in enumerate(value.get("fields", ())):
            if not isinstance(f["name"], str):
                raise InvalidInputError(f"{where}: field {i + 1} must have a text as its name, not {f['name']!r}")
            inner = parse_type(f["type"], where=f"{where}.{f['name']}")
            rest = {k: v for k, v in f.items() if k not in FIELD_KEYS}
            texts = f.get("description"), f.get("defaultValue")
            fields.append(Field(int(f.get("id", i)), f["name"], inner, *texts, rest))
        return DataType(Root.ROW, nullable, fields=tuple(fields))
    if word in ("ARRAY", "MULTISET"):
        if "element" not in value:
            raise InvalidInputError(f"{where}: {word} needs 'element'")
        return DataType(Root(word), nullable, element=parse_type(value["element"], where=f"{where}.element"))
    if word == "MAP":
        if "key" not in value or "value" not in value:
            raise InvalidInputError(f"{where}: MAP needs 'key' and 'value'")
        key = parse_type(value["key"], where=f"{where}.key")
        return DataType(Root.MAP, nullable, key=key, element=parse_type(value["value"], where=f"{where}.value"))
    raise InvalidInputError(f"{where}: unknown nested type {value['type']!r}; use ARRAY, MAP, MULTISET or ROW")


def _parse_text(text: str, where: str) -> DataType:
    m = _PATTERN.match(text.upper())
    if m is None:
        raise InvalidInputError(f"{where}: cannot read the type {text!r}; {_written_as(text)}")
    word, rest = " ".join(m["word"].split()), " ".join(m["rest"].split())
    args = [int(a) for a in m["args"].split(",")] if m["args"] else []
    ltz = word == "TIMESTAMP_LTZ"
    for suffix, is_ltz in (("WITH LOCAL TIME ZONE", True), ("WITHOUT TIME ZONE", False)):
        if word in ("TIME", "TIMESTAMP") and rest.startswith(suffix):
            ltz, rest = is_ltz, rest[len(suffix) :].strip()
    if rest not in ("", "NULL", "NOT NULL"):
        raise InvalidInputError(f"{where}: cannot read the type {text!r} (at {rest!r}); {_written_as(text)}")
    nullable = rest != "NOT NULL"
    if word in _NOT_OURS:
        raise InvalidInputError(f"{where}: type {word} is not supported by lakeidx; {_written_as(text)}")
    if word in _SIMPLE and not args:
        return DataType(_SIMPLE[word], nullable)
    if word in ("STRING", "BYTES") and not args:
        return DataType(Root.VARCHAR if word == "STRING" else Root.VARBINARY, nullable, length=MAX_LENGTH)
    if word in _LENGTH_ROOTS and len(args) <= 1:
        length = args[0] if args else 1
        if not 1 <= length <= MAX_LENGTH:
            raise InvalidInputError(f"{where}: the length of {word} must be 1 to {MAX_LENGTH}, not {length}")
        return DataType(_LENGTH_ROOTS[word], nullable, length=length)
    if word in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (args[0] if args else 10), (args[1] if len(args) > 1 else 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise InvalidInputError(f"{where}: DECIMAL needs 1 <= precision <= 38 and scale <= precision, not {text!r}")
        return DataType(Root.DECIMAL, nullable, precision=precision, scale=scale)
    if word in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and len(args) <= 1:
        precision = args[0] if args else (0 if word == "TIME" else 6)
        if precision > 9:
            raise InvalidInputError(f"{where}: the precision of {word} must be 0 to 9, not {precision}")
        root = Root.TIME if word == "TIME" else (Root.TIMESTAMP_LTZ if ltz else Root.TIMESTAMP)
        return DataType(root, nullable, precision=precision)
    raise InvalidInputError(f"{where}: unknown type {text!r}; {_written_as(text)}")


def _written_as(text: str) -> str:
    """Return how a type is written that was probably meant by a text."""
    upper = text.upper()
    found = re.match(r"\s*([A-Z_]+\d*)", upper)
    word = found[1] if found else ""
    nested = word if word in _OBJECTS else "ARRAY" if re.search(r"\[\]|\bARRAY\b", upper) else None
    if nested is not None:
        return f"nested types are objects: {_OBJECTS[nested]}"
    if "WITH TIME ZONE" in upper or ("TZ=" in upper and word == "TIMESTAMP"):
        word = "TIMESTAMPTZ"
    if "UNSIGNED" in upper:
        wider = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "BIGINT": "DECIMAL(20, 0)"}
        return f"there are no unsigned types: write {wider.get(word, 'BIGINT')!r}"
    if word in _NAMES_ELSEWHERE:
        return f"write {_NAMES_ELSEWHERE[word]!r}"
    known = [*_SIMPLE, "STRING", "BYTES", *_LENGTH_ROOTS, "DECIMAL", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"]
    if word in (*_SIMPLE, "STRING", "BYTES") and "(" in upper:
        return f"{word} has no numbers: write {word!r}" + (", or VARCHAR with a length" if word == "STRING" else "")
    if word in known:
        return (
            "a type is a word, its numbers in parentheses where it has any, and NOT NULL, as 'DECIMAL(10, 2) NOT NULL'"
        )
    return did_you_mean(word, [*known, Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW])


def format_type(t: DataType) -> str | dict[str, Any]:
    """Write a type as schema JSON does: text for atomic types, an object for nested ones."""
    suffix = "" if t.nullable else " NOT NULL"
    if t.root in (Root.ARRAY, Root.MULTISET):
        assert t.element is not None
        return {"type": t.root.value + suffix, "element": format_type(t.element)}
    if t.root is Root.MAP:
        assert t.key is not None
        assert t.element is not None
        return {"type": "MAP" + suffix, "key": format_type(t.key), "value": format_type(t.element)}
    if t.root is Root.ROW:
        return {"type": "ROW" + suffix, "fields": [format_field(f) for f in t.fields]}
    return _atomic_name(t) + suffix


def format_field(f: Field) -> dict[str, Any]:
    """Parse a column or ROW field as schema JSON writes it."""
    out: dict[str, Any] = {"id": f.id, "name": f.name, "type": format_type(f.type)}
    if f.description is not None:
        out["description"] = f.description
    if f.default_value is not None:
        out["defaultValue"] = f.default_value
    return out | dict(f.unknown)


def _atomic_name(t: DataType) -> str:
    if t.root in (Root.VARCHAR, Root.VARBINARY) and t.length == MAX_LENGTH:
        return "STRING" if t.root is Root.VARCHAR else "BYTES"
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        return f"{t.root.value}({t.length})"
    if t.root is Root.DECIMAL:
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root in (Root.TIME, Root.TIMESTAMP):
        return f"{t.root.value}({t.precision})"
    if t.root is Root.TIMESTAMP_LTZ:
        return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
    return t.root.value


def _sql_name(t: DataType) -> str:
    """Format the type in one line of SQL-like text, for messages."""
    suffix = "" if t.nullable else " NOT NULL"
    if t.root in (Root.ARRAY, Root.MULTISET):
        return f"{t.root.value}<{t.element}>{suffix}"
    if t.root is Root.MAP:
        return f"MAP<{t.key}, {t.element}>{suffix}"
    if t.root is Root.ROW:
        return f"ROW<{', '.join(f'{f.name} {f.type}' for f in t.fields)}>{suffix}"
    return _atomic_name(t) + suffix


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


def walk_field_ids(t: DataType) -> Iterator[int]:
    """Return the ids of all nested ROW fields below a type, depth first."""
    for child in (t.key, t.element):
        if child is not None:
            yield from walk_field_ids(child)
    for f in t.fields:
        yield f.id
        yield from walk_field_ids(f.type)


def assign_field_ids(columns: Sequence[tuple[str, DataType, str | None]], *, start: int = 0) -> tuple[Field, ...]:
    """Assign ids to columns as Paimon does: a column first, then its nested ROW fields, children before their parent field.

    columns  (name, type, description); ids inside ROW types are replaced
    source   org.apache.paimon.types.ReassignFieldId, release 1.4.2
    """
    counter = [start]

    def take() -> int:
        counter[0] += 1
        return counter[0] - 1

    def renumber(t: DataType) -> DataType:
        key = renumber(t.key) if t.key is not None else None
        element = renumber(t.element) if t.element is not None else None
        fields = []
        for f in t.fields:
            inner = renumber(f.type)
            fields.append(replace(f, id=take(), type=inner))
        return replace(t, key=key, element=element, fields=tuple(fields))

    out = []
    for name, t, description in columns:
        column_id = take()
        out.append(Field(column_id, name, renumber(t), description))
    return tuple(out)
