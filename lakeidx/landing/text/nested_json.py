"""Nested values (ARRAY, MAP, MULTISET, ROW, VARIANT) from JSON text: in their shape with texts in it, then cast level by level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.codec.values import map_types
from lakeidx.landing.cast import CastColumn, failing_too
from lakeidx.landing.cast_nested import cast_nested
from lakeidx.landing.text.json_values import json_text, json_text_of, parse_json
from lakeidx.types import STRING_ROOTS, DataType, Root, to_arrow


def cast_json(texts: pa.Array, wanted: DataType) -> CastColumn:
    """Cast JSON texts to a nested column; a row fails where its text is no value of the type.

    ARRAY      a JSON list
    MAP        an object, or a list of [key, value]; MULTISET the same with counts
    ROW        an object by field name; a field left out is null
    VARIANT    an object with value and metadata in hex
    """
    failed = np.zeros(len(texts), np.bool_)
    values: list[Any] = []
    for i, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else _shaped(parse_json(text), wanted))
        except (ValueError, RecursionError):
            failed[i] = True
            values.append(None)
    return failing_too(cast_nested(pa.array(values, _shape(wanted)), wanted), failed if failed.any() else None)


def _shape(t: DataType) -> pa.DataType:
    """Return a type of the same shape whose values are texts; a VARIANT is as it is."""
    if t.root is Root.ARRAY:
        assert t.element is not None
        return pa.list_(_shape(t.element))
    if t.root in (Root.MAP, Root.MULTISET):
        return pa.map_(*map(_shape, map_types(t)))
    if t.root is Root.ROW:
        return pa.struct([(f.name, _shape(f.type)) for f in t.fields])
    return to_arrow(t) if t.root is Root.VARIANT else pa.string()


def _shaped(value: Any, t: DataType) -> Any:
    """Return a value from `parse_json` in the shape of a type; ValueError where it has another."""
    if value is None:
        return None
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [_shaped(v, t.element) for v in _list_of(value)]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = map_types(t)
        return [(_shaped(k, key), _shaped(v, item)) for k, v in _pairs_of(value)]
    if t.root is Root.ROW:
        if not isinstance(value, dict) or value.keys() - {f.name for f in t.fields}:
            raise ValueError(f"{value!r} is not {t}")
        return {f.name: _shaped(value.get(f.name), f.type) for f in t.fields}
    if t.root is Root.VARIANT:
        return _variant(value)
    if not isinstance(value, (bool, str)) and t.root not in STRING_ROOTS:
        raise ValueError(f"{value!r} is not {t}")
    text = json_text_of(value, nested=False) if isinstance(value, (bool, str)) else json_text(value)
    if text is not None:
        # Half of a pair of surrogates is no text: UnicodeEncodeError is a ValueError.
        text.encode()
    return text


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def _pairs_of(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    pairs = _list_of(value)
    if any(not isinstance(p, list) or len(p) != 2 or p[0] is None for p in pairs):
        raise ValueError("a map is an object or a list of [key, value]")
    return [(k, v) for k, v in pairs]


def _variant(value: Any) -> dict[str, bytes]:
    if not isinstance(value, dict) or set(value) != {"value", "metadata"}:
        raise ValueError("a VARIANT is an object with value and metadata")
    return {name: bytes.fromhex(value[name]) for name in ("value", "metadata") if isinstance(value[name], str)}
