"""Casts of nested columns, level by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.values import map_types
from lakeidx.data.declared import has_ranges, out_of_range
from lakeidx.data.nested_nulls import map_entries
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import CastColumn, cast_array, failing_too, plain
from lakeidx.types import (
    MAX_LENGTH,
    DataType,
    Field,
    Root,
    is_list,
    to_arrow,
)

_VARIANT_PART = DataType(Root.VARBINARY, nullable=False, length=MAX_LENGTH)
_VARIANT_FIELDS = (Field(0, "value", _VARIANT_PART), Field(1, "metadata", _VARIANT_PART))


def cast_nested(array: pa.Array, wanted: DataType) -> CastColumn:
    """Cast a nested column to its type level by level; a row fails when something in it does, or is out of its range.

    errors   InvalidInputError when values of what is inside never cast to what is wanted there
    """
    target = to_arrow(wanted)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        fields = wanted.fields if wanted.root is Root.ROW else _VARIANT_FIELDS
        at = {f.name: i for i, f in enumerate(array.type)}
        found = [array.field(at[f.name]) if f.name in at else pa.nulls(len(array)) for f in fields]
        inside = [_cast_inside(values, f.type) for values, f in zip(found, fields, strict=True)]
        failed = _any_failed(inside, len(array)) & np.asarray(array.is_valid())
        gone = pa.array(failed | np.asarray(array.is_null()))
        values = pa.StructArray.from_arrays([c.values for c in inside], fields=list(target), mask=gone)
        return CastColumn(values, failed if failed.any() else None)
    lists = None if pa.types.is_struct(target) else _as_lists(array)
    held = None if lists is None else lists.type.value_type
    pairs = held is not None and (pa.types.is_null(held) or (pa.types.is_struct(held) and len(held) == 2))
    if lists is None or (pa.types.is_map(target) and not pairs):
        raise InvalidInputError(f"{array.type} does not cast to {wanted}")
    there = np.asarray(lists.is_valid())
    bounds = np.concatenate([[0], np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(lists), 0)))])
    # Of lists of nothing but null Arrow 26 loses some.
    parts = pa.nulls(int(bounds[-1])) if pa.types.is_null(lists.type.value_type) else pc.list_flatten(lists)
    if pa.types.is_map(target):
        halves = parts.flatten() if pa.types.is_struct(parts.type) else [parts, parts]
        inside = [_cast_inside(half, t) for half, t in zip(halves, map_types(wanted), strict=True)]
        bad = _any_failed(inside, len(parts)) | np.asarray(inside[0].values.is_null())
    else:
        assert wanted.element is not None
        inside = [_cast_inside(parts, wanted.element)]
        bad = _any_failed(inside, len(parts))
    hits = np.concatenate([[0], np.cumsum(bad)])
    failed = hits[bounds[1:]] > hits[bounds[:-1]]
    if failed.any():
        # Once more without them: a map is not built with a key that is null.
        return CastColumn(cast_nested(pc.if_else(pa.array(failed), None, lists), wanted).values, failed)
    build = pa.MapArray.from_arrays if pa.types.is_map(target) else pa.ListArray.from_arrays
    offsets, gone = pa.array(bounds, pa.int32()), pa.array(~there)
    return CastColumn(build(offsets, *(c.values for c in inside), type=target, mask=gone))


def _cast_inside(values: pa.Array, wanted: DataType) -> CastColumn:
    cast = cast_array(values, wanted)
    if wanted.is_nested:
        return failing_too(cast_nested(cast.values, wanted), cast.failed) if has_ranges(wanted) else cast
    unfit = out_of_range(cast.values, wanted)
    if unfit is None:
        return cast
    kept = pc.if_else(unfit, pa.scalar(None, cast.values.type), cast.values)
    return failing_too(CastColumn(kept, cast.failed), np.asarray(pc.fill_null(unfit, False)))


def _any_failed(columns: Sequence[CastColumn], rows: int) -> np.ndarray:
    failed = np.zeros(rows, np.bool_)
    for column in columns:
        if column.failed is not None:
            failed |= column.failed
    return failed


def _as_lists(array: pa.Array) -> pa.Array | None:
    """Return lists of any layout as plain ones, and maps as lists of structs; None for what is neither."""
    t = array.type
    if pa.types.is_map(t):
        return map_entries(array)
    if pa.types.is_list(t):
        return array
    if pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
        # Arrow 26 casts views to lists with too few offsets.
        bounds = np.concatenate([[0], np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(array), 0)))])
        offsets, gone = pa.array(bounds, pa.int32()), array.is_null()
        return plain(pa.ListArray.from_arrays(offsets, pc.list_flatten(array), mask=gone if array.null_count else None))
    return array.cast(pa.list_(t.value_field)) if is_list(t) else None
