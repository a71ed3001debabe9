"""Nested values (ARRAY, MAP, MULTISET, ROW, VARIANT) from JSON text: level by level, the values of a level cast as one column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from lakeidx.landing.text.json_values import json_text, json_text_of, parse_json
from lakeidx.types import STRING_ROOTS, DataType, Root, to_arrow

#: Casts texts (null stays null) to a type that is not nested; raises ValueError when one does not fit.
CastTexts = Callable[[pa.Array, DataType], pa.Array]

_COUNT = DataType(Root.INT, nullable=False)


def nested_from_json(text: pa.Array, wanted: DataType, cast_texts: CastTexts) -> pa.Array:
    """Parse JSON text into a nested column.

    ARRAY      a JSON list
    MAP        an object, or a list of [key, value]; MULTISET the same with counts
    ROW        an object by field name; a field left out is null
    VARIANT    an object with value and metadata in hex
    errors     ValueError (Arrow's included) when a value does not fit
    """
    values = [None if v is None else parse_json(v) for v in text.to_pylist()]
    return _build(values, wanted, cast_texts)


def _build(values: Sequence[Any], t: DataType, cast_texts: CastTexts) -> pa.Array:
    if t.root in (Root.ARRAY, Root.MAP, Root.MULTISET):
        return _build_repeated(values, t, cast_texts)
    if t.root is Root.ROW:
        return _build_rows(values, t, cast_texts)
    if t.root is Root.VARIANT:
        return pa.array([None if v is None else _variant(v) for v in values], type=to_arrow(t))
    return cast_texts(pa.array([_scalar_text(v, t) for v in values], pa.string()), t)


def _build_inner(values: Sequence[Any], t: DataType, cast_texts: CastTexts) -> pa.Array:
    if not t.nullable and any(v is None for v in values):
        raise ValueError(f"null inside a nested value of type {t}")
    return _build(values, t, cast_texts)


def _build_repeated(values: Sequence[Any], t: DataType, cast_texts: CastTexts) -> pa.Array:
    target = to_arrow(t)
    items = [[] if v is None else (_list_of(v) if t.root is Root.ARRAY else _pairs_of(v)) for v in values]
    offsets = pa.array([0, *accumulate(len(i) for i in items)], pa.int32())
    mask = pa.array([v is None for v in values], pa.bool_()) if any(v is None for v in values) else None
    flat = [item for inner in items for item in inner]
    if t.root is Root.ARRAY:
        assert t.element is not None
        return pa.ListArray.from_arrays(offsets, _build_inner(flat, t.element, cast_texts), type=target, mask=mask)
    key, value = (t.key, t.element) if t.root is Root.MAP else (t.element, _COUNT)
    assert key is not None
    assert value is not None
    keys = _build_inner([k for k, _ in flat], key.with_nullable(False), cast_texts)
    return pa.MapArray.from_arrays(
        offsets, keys, _build_inner([v for _, v in flat], value, cast_texts), type=target, mask=mask
    )


def _build_rows(values: Sequence[Any], t: DataType, cast_texts: CastTexts) -> pa.Array:
    names = {f.name for f in t.fields}
    for value in values:
        if value is None:
            continue
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not {t}")
        if unknown := sorted(set(value) - names):
            raise ValueError(f"unknown fields {', '.join(unknown)}")
    mask = [v is None for v in values]
    children = []
    for f in t.fields:
        inner = [None if v is None else v.get(f.name) for v in values]
        if not f.type.nullable and any(i is None and not gone for i, gone in zip(inner, mask, strict=True)):
            raise ValueError(f"field {f.name} must not be null")
        children.append(_build(inner, f.type, cast_texts))
    return pa.StructArray.from_arrays(children, fields=list(to_arrow(t)), mask=pa.array(mask, pa.bool_()))


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def _pairs_of(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    pairs = _list_of(value)
    if any(not isinstance(p, list) or len(p) != 2 for p in pairs):
        raise ValueError("a map is an object or a list of [key, value]")
    return [(k, v) for k, v in pairs]


def _variant(value: Any) -> dict[str, bytes]:
    if not isinstance(value, dict) or set(value) != {"value", "metadata"}:
        raise ValueError("a VARIANT is an object with value and metadata")
    return {name: bytes.fromhex(value[name]) for name in ("value", "metadata") if isinstance(value[name], str)}


def _scalar_text(value: Any, t: DataType) -> str | None:
    if value is None or isinstance(value, (bool, str)):
        return json_text_of(value, nested=False)
    if t.root in STRING_ROOTS:
        return json_text(value)
    raise ValueError(f"{value!r} is not {t}")
