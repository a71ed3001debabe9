"""Nulls of required fields inside nested columns: those below a null parent are taken out, those that show are found.

Arrow allows a child of a null ROW to be null although the field is NOT NULL, and many of its functions make such arrays
(``pa.nulls``, ``take``, building from Python values); its Parquet writer refuses them. What no reader can see is not a null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def has_required_fields(t: pa.DataType) -> bool:
    """Return True when a field, element or map value somewhere inside the type must not be null (map keys always must)."""
    return any(not f.nullable or has_required_fields(f.type) for f in _children(t))


def without_hidden_nulls(array: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Rebuild the values with nothing null in required fields below null parents.

    returns  the array, and bool[n] of rows in which a required field is null below a parent that is there; None for none
    """
    if not has_required_fields(array.type):
        return array, None
    out, bad = _settle(array)
    return out, bad if bad.any() else None


def settle_column(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, bool]:
    """Apply `without_hidden_nulls` to a chunked column, and return whether a required field is null below a parent that
    is there.
    """
    if not has_required_fields(column.type):
        return column, False
    settled = [without_hidden_nulls(chunk) for chunk in column.chunks]
    return pa.chunked_array([a for a, _ in settled], column.type), any(bad is not None for _, bad in settled)


def map_entries(maps: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of their entries; Arrow's own cast refuses values with a null ROW above a required field."""
    fields = [f.with_nullable(True) for f in _children(maps.type)]
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], fields=fields)
    return pa.ListArray.from_arrays(pa.array(np.asarray(maps.offsets)), entries, mask=_null_mask(maps))


def _children(t: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(t):
        return [t.field(i) for i in range(t.num_fields)]
    if pa.types.is_map(t):
        return [t.key_field, t.item_field]
    return [t.value_field] if pa.types.is_list(t) else []


def _settle(array: pa.Array) -> tuple[pa.Array, Mask]:
    if pa.types.is_struct(array.type):
        return _settle_struct(array)
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        return _settle_repeated(array)
    return array, np.zeros(len(array), np.bool_)


def _settle_struct(array: pa.StructArray) -> tuple[pa.Array, Mask]:
    there = np.asarray(array.is_valid())
    bad = np.zeros(len(array), np.bool_)
    children = []
    for i, field in enumerate(_children(array.type)):
        child, inner = _settle_child(array.field(i), field)
        children.append(child)
        bad |= inner & there
    return pa.StructArray.from_arrays(children, fields=_children(array.type), mask=_null_mask(array)), bad


def _settle_repeated(array: pa.ListArray | pa.MapArray) -> tuple[pa.Array, Mask]:
    is_list = pa.types.is_list(array.type)
    bounds = np.asarray(array.offsets).astype(np.int64)
    lengths = np.where(np.asarray(array.is_valid()), np.diff(bounds), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    parts = [array.values] if is_list else [array.keys, array.items]
    shown = _shown_slots(bounds[:-1], lengths)
    settled = [
        _settle_child(part.take(pa.array(shown)), field)
        for part, field in zip(parts, _children(array.type), strict=True)
    ]
    hits = np.concatenate([[0], np.cumsum(np.logical_or.reduce([bad for _, bad in settled]))])
    build = pa.ListArray.from_arrays if is_list else pa.MapArray.from_arrays
    values = [values for values, _ in settled]
    out = build(pa.array(offsets, pa.int32()), *values, type=array.type, mask=_null_mask(array))
    return out, hits[offsets[1:]] > hits[offsets[:-1]]


def _shown_slots(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the values that belong to a list that is there; a null list may cover some, a slice
    leaves some out.
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _settle_child(child: pa.Array, field: pa.Field) -> tuple[pa.Array, Mask]:
    child, bad = _settle(child)
    if field.nullable or not child.null_count:
        return child, bad
    return _without_validity(child), bad | np.asarray(child.is_null())


def _without_validity(array: pa.Array) -> pa.Array:
    """Strip the validity of an array: nulls become the value stored under them (empty, or zero)."""
    t = array.type
    if pa.types.is_struct(t):
        return pa.StructArray.from_arrays([array.field(i) for i in range(t.num_fields)], fields=_children(t))
    if pa.types.is_list(t):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=t)
    if pa.types.is_map(t):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=t)
    return pa.Array.from_buffers(t, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
