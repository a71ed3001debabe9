"""Internal values from the JSON forms of the golden data, and these forms of values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from lakeidx.codec.values import decimal_of, map_types, unscaled_of
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root


def json_to_internal(value: Any, t: DataType) -> Any:
    """Parse an internal value from the JSON forms of the golden data (README there, "Values in JSON").

    value    BINARY as hex, DECIMAL as text, TIMESTAMP as [millis, nanos], FLOAT/DOUBLE as number or "NaN"/"Infinity",
             ARRAY as list, MAP and MULTISET as list of [key, value], ROW as list, VARIANT as [value hex, metadata hex]
    """
    if value is None:
        return None
    if t.root in BYTES_ROOTS:
        return bytes.fromhex(value)
    if t.root is Root.DECIMAL:
        return decimal_of(unscaled_of(Decimal(value), t), t)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return float(np.float32(value)) if t.root is Root.FLOAT else float(value)
    if t.root in TIMESTAMP_ROOTS:
        millis, nanos = value
        return int(millis), int(nanos)
    if t.root is Root.VARIANT:
        return bytes.fromhex(value[0]), bytes.fromhex(value[1])
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [json_to_internal(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = map_types(t)
        return [(json_to_internal(k, key), json_to_internal(v, item)) for k, v in value]
    if t.root is Root.ROW:
        return tuple(json_to_internal(v, f.type) for v, f in zip(value, t.fields, strict=True))
    return value


def internal_to_json(value: Any, t: DataType) -> Any:
    """Format an internal value: bytes as hex, DECIMAL, NaN and infinities as text, TIMESTAMP as [millis, nanos], maps as lists of
    [key, value]; a FLOAT is the shortest number that reads back as the same 32-bit value.
    """
    if value is None:
        return None
    if t.root in BYTES_ROOTS:
        return value.hex()
    if t.root is Root.DECIMAL:
        return f"{value:f}"
    if t.root in (Root.FLOAT, Root.DOUBLE):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return float(str(np.float32(value))) if t.root is Root.FLOAT else value
    if t.root in TIMESTAMP_ROOTS:
        return list(value)
    if t.root is Root.VARIANT:
        return [value[0].hex(), value[1].hex()]
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [internal_to_json(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = map_types(t)
        return [[internal_to_json(k, key), internal_to_json(v, item)] for k, v in value]
    if t.root is Root.ROW:
        return [internal_to_json(v, f.type) for v, f in zip(value, t.fields, strict=True)]
    return value
