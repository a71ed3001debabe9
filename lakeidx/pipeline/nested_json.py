"""Nested values (ARRAY, MAP, MULTISET, ROW, VARIANT) from JSON text. Value by value: nested landing columns are rare and small."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, Root, to_arrow


def nested_from_json(text: pa.Array, wanted: DataType) -> pa.Array:
    """Parse JSON text into a nested column.

    ARRAY      a JSON list
    MAP        an object, or a list of [key, value]; MULTISET the same with counts
    ROW        an object by field name
    errors     ValueError (also from Arrow) when a value does not fit
    """
    values = [None if v is None else _convert(json.loads(v), wanted) for v in text.to_pylist()]
    return pa.array(values, type=to_arrow(wanted))


def _convert(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [_convert(v, t.element) for v in _expect(value, list, t)]
    if t.root in (Root.MAP, Root.MULTISET):
        key, count = (t.key, t.element) if t.root is Root.MAP else (t.element, DataType(Root.INT, nullable=False))
        assert key is not None
        assert count is not None
        pairs = value.items() if isinstance(value, dict) else [tuple(p) for p in _expect(value, list, t)]
        return [(_convert(k, key), _convert(v, count)) for k, v in pairs]
    if t.root is Root.ROW:
        fields = _expect(value, dict, t)
        unknown = sorted(set(fields) - {f.name for f in t.fields})
        if unknown:
            raise ValueError(f"unknown fields {', '.join(unknown)}")
        return {f.name: _convert(fields.get(f.name), f.type) for f in t.fields}
    if t.root is Root.VARIANT:
        pair = _expect(value, dict, t)
        return {"value": bytes.fromhex(pair["value"]), "metadata": bytes.fromhex(pair["metadata"])}
    if t.root in STRING_ROOTS:
        return value if isinstance(value, str) else json.dumps(value)
    if t.root in BYTES_ROOTS:
        return bytes.fromhex(_expect(value, str, t))
    if t.root is Root.BOOLEAN:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        return _expect(value, bool, t)
    if isinstance(value, (bool, list, dict)):
        raise ValueError(f"{value!r} is not {t}")
    return pc.cast(pa.scalar(str(value)), to_arrow(t)).as_py()


def _expect(value: Any, kind: type, t: DataType) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is not {t}")
    return value
