"""Nested columns of older data files, rebuilt with their parts as the table has them now."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.values import map_types
from lakeidx.data.read_data_file import ColumnPlan, evolve_column, evolve_values, plan_file_columns
from lakeidx.errors import UnsupportedError
from lakeidx.types import DataType, Field, Root, to_arrow


def rebuild_nested(chunk: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    """Rebuild a nested array with its children evolved and with Arrow's names for them."""
    target = to_arrow(new)
    if pa.types.is_struct(chunk.type) is not pa.types.is_struct(target) or pa.types.is_map(chunk.type) is not (
        pa.types.is_map(target)
    ):
        raise ValueError(f"column {name!r}: found {chunk.type} where {old} should be")
    mask = chunk.is_null() if chunk.null_count else None
    if new.root is Root.VARIANT:
        fields = [chunk.type.field(i).name for i in range(chunk.type.num_fields)]
        if "typed_value" in fields:
            raise UnsupportedError(
                f"column {name!r}: a shredded VARIANT, which has values in columns of their own, is not read: write the table "
                "without option 'variant.shreddingSchema'"
            )
        return pa.StructArray.from_arrays(chunk.flatten(), fields=list(target), mask=mask)
    if new.root is Root.ROW:
        children = dict(
            zip((chunk.type.field(i).name for i in range(chunk.type.num_fields)), chunk.flatten(), strict=True)
        )
        parts = []
        for plan in plan_file_columns(old.fields, new.fields):
            child = children.get(plan.source.name) if plan.source is not None else None
            wrapped = pa.chunked_array([child]) if child is not None else None
            inner = ColumnPlan(Field(plan.field.id, f"{name}.{plan.field.name}", plan.field.type), plan.source)
            parts.append(evolve_column(inner, wrapped, len(chunk)).combine_chunks())
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    offsets = pa.array(np.asarray(chunk.offsets))
    if new.root is Root.ARRAY:
        assert old.element is not None
        assert new.element is not None
        values = _child(chunk.values, old.element, new.element, f"{name}.element")
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    (old_key, old_item), (new_key, new_item) = map_types(old), map_types(new)
    keys = _child(chunk.keys, old_key.with_nullable(False), new_key.with_nullable(False), f"{name}.key")
    items = _child(chunk.items, old_item, new_item, f"{name}.value")
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


def _child(values: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    return evolve_values(pa.chunked_array([values]), old, new, name).combine_chunks()
