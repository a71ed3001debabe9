"""JSON values of landing files: numbers keep their digits, and a value is converted back to the text that was written."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakeidx.types import DataType, Root, parse_type


class JsonNumber(str):
    """A JSON number as it was written, so that no digit is lost on the way."""

    __slots__ = ()


def parse_json(text: str, *, unique_names: bool = False) -> Any:
    """Parse a JSON value with its numbers as `JsonNumber`.

    unique_names  refuse an object that has a name twice
    errors        ValueError, RecursionError
    """
    pairs = _unique_object if unique_names else None
    return json.loads(text, parse_float=JsonNumber, parse_int=JsonNumber, object_pairs_hook=pairs)


def json_text(value: Any) -> str:
    """Return JSON text of a value from `parse_json`: numbers digit by digit, names in their order, one blank after
    ``,`` and ``:``.

    errors   RecursionError
    """
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_quoted(k)}: {json_text(v)}" for k, v in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([json_text(v) for v in value]) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate name in one object")
    return out


def type_of_values(t: pa.DataType) -> DataType:
    """Return the type of a column whose JSON values Arrow reads as `t`; text for all that is no number and no truth value."""
    if pa.types.is_integer(t):
        return parse_type("BIGINT")
    if pa.types.is_floating(t):
        return parse_type("DOUBLE")
    return parse_type("BOOLEAN" if pa.types.is_boolean(t) else "STRING")


def type_of_value(value: Any) -> DataType:
    """Return the type of a column with this value from `parse_json`."""
    if isinstance(value, bool):
        return type_of_values(pa.bool_())
    if isinstance(value, JsonNumber):
        return type_of_values(pa.int64() if value.lstrip("-").isdecimal() else pa.float64())
    return type_of_values(pa.string())


def wider_of_values(old: DataType | None, new: DataType) -> DataType:
    """Return a type for both: numbers with a fraction for numbers, text for all else."""
    if old is None or old == new:
        return new
    numbers = (Root.BIGINT, Root.DOUBLE)
    return type_of_values(pa.float64() if old.root in numbers and new.root in numbers else pa.string())


def take_new_fields(value: Any, t: DataType, path: str, found: dict[str, DataType]) -> None:
    """Record the fields of a value from `parse_json` that its nested type does not have, and remove those that are null.

    path    of the value: the column, and what it is in
    found   types by path, made wider by what this value has; ``element`` and ``value`` stand for what an ARRAY or MAP holds
    """
    if t.root is Root.ROW and isinstance(value, dict):
        mine = {f.name: f.type for f in t.fields}
        for name in list(value):
            inner, place = value[name], f"{path}.{name}"
            if name in mine:
                take_new_fields(inner, mine[name], place, found)
            elif inner is None:
                # Nobody knows its type, and nothing is lost without it.
                del value[name]
            else:
                found[place] = wider_of_values(found.get(place), type_of_value(inner))
    elif t.root is Root.ARRAY and isinstance(value, list):
        for item in value:
            take_new_fields(item, _held(t), f"{path}.element", found)
    elif t.root is Root.MAP and isinstance(value, dict):
        for item in value.values():
            take_new_fields(item, _held(t), f"{path}.value", found)
    elif t.root is Root.MAP and isinstance(value, list):
        for pair in (p for p in value if isinstance(p, list) and len(p) == 2):
            take_new_fields(pair[1], _held(t), f"{path}.value", found)


def _held(t: DataType) -> DataType:
    assert t.element is not None
    return t.element


def json_text_of(value: Any, nested: bool) -> str | None:
    """Return a JSON value as text; of a nested column as JSON text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Of a nested column: JSON inside a string.
        return str(value)
    return json_text(value) if nested or isinstance(value, (list, dict)) else str(value)
