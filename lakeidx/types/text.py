"""Data types as schema JSON writes them, and in one line of text.

source   org.apache.paimon.types.DataTypeJsonParser / DataType.asSQLString, release 1.4.2
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.types.model import BYTES_ROOTS, FIELD_KEYS, MAX_LENGTH, STRING_ROOTS, DataType, Field, Root

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


def sql_type(t: DataType) -> str:
    """Format the type in one line of SQL-like text, for messages."""
    suffix = "" if t.nullable else " NOT NULL"
    if t.root in (Root.ARRAY, Root.MULTISET):
        return f"{t.root.value}<{t.element}>{suffix}"
    if t.root is Root.MAP:
        return f"MAP<{t.key}, {t.element}>{suffix}"
    if t.root is Root.ROW:
        return f"ROW<{', '.join(f'{f.name} {f.type}' for f in t.fields)}>{suffix}"
    return _atomic_name(t) + suffix
