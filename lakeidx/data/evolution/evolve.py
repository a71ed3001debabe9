"""Columns of a data file read as columns of another version of the schema.

A column is the same when its field id is: it is found in the file under the name it had when the file was written, cast when
its type changed since, and null when the file has none. Fields of a ROW, also inside ARRAY and MAP, are matched the same way.

source   org.apache.paimon.schema.SchemaEvolutionUtil, org.apache.paimon.casting.CastedRow; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeidx.codec.values import map_types
from lakeidx.data.evolution.cast import cast_column
from lakeidx.errors import UnsupportedError
from lakeidx.types import DataType, Field, Root, to_arrow


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How one wanted column comes out of a file: from `source`, or all null when that is None."""

    field: Field
    source: Field | None


def plan_columns(file_fields: Sequence[Field], wanted: Sequence[Field]) -> list[ColumnPlan]:
    """Match wanted columns to a file's by field id."""
    by_id = {f.id: f for f in file_fields}
    return [ColumnPlan(f, by_id.get(f.id)) for f in wanted]


def evolve_column(plan: ColumnPlan, column: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray:
    """Make the wanted column from the file's.

    column   what the file has under ``plan.source``; None when it has none
    rows     length of the result
    returns  a column of ``to_arrow(plan.field.type)``
    errors   UnsupportedError when Paimon has no such cast; InvalidInputError when a value does not cast
    """
    target = to_arrow(plan.field.type)
    if column is None or plan.source is None:
        return pa.chunked_array([pa.nulls(rows, target)], target)
    return _evolve(column, plan.source.type, plan.field.type, plan.field.name)


def _evolve(column: pa.ChunkedArray, old: DataType, new: DataType, name: str) -> pa.ChunkedArray:
    target = to_arrow(new)
    if column.type == target and (old == new or old.with_nullable(True) == new.with_nullable(True)):
        return column
    if not new.is_nested and new.root is not Root.VARIANT:
        if column.type != to_arrow(old):
            column = column.cast(to_arrow(old))
        return cast_column(column, old, new, name=name)
    if old.root is not new.root:
        raise UnsupportedError(f"column {name!r}: Paimon has no cast from {old} to {new}")
    return pa.chunked_array([_rebuild(chunk, old, new, name) for chunk in column.chunks], target)


def _rebuild(chunk: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
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
        for plan in plan_columns(old.fields, new.fields):
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
    return _evolve(pa.chunked_array([values]), old, new, name).combine_chunks()
