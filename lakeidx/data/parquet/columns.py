"""The columns of the data files of a table, as Arrow's writer gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeidx.data.parquet.chunks import leaf_paths
from lakeidx.data.parquet.schema import holds_int96, is_int96, parquet_arrow_schema
from lakeidx.types import Field, Root

if TYPE_CHECKING:
    from lakeidx.data.parquet.footer import TimestampMark


@dataclass(frozen=True, slots=True)
class ParquetColumns:
    """The columns of the data files of a table, as Arrow's writer gets them.

    schema         in file order, with field ids
    int96          there are timestamps that become INT96, nested ones too; marks: the annotations of all others
    floats         top-level FLOAT and DOUBLE columns
    leaves         number of each top-level column's first one among all leaf columns
    int96_names    top-level columns that become INT96
    physical       the schema in the types that Arrow's writer gets: INT64 for a timestamp that must not become INT96
    nested         numbers of the top-level columns of nested types
    """

    schema: pa.Schema
    int96: bool
    marks: Mapping[int, TimestampMark]
    floats: tuple[str, ...]
    leaves: Mapping[str, int]
    int96_names: tuple[str, ...]
    physical: pa.Schema
    nested: tuple[int, ...]

    @classmethod
    def of(cls, fields: Sequence[Field]) -> ParquetColumns:
        """Return the columns of files of these fields (`lakeidx.data.parquet.schema.file_fields`)."""
        schema, int96 = parquet_arrow_schema(fields), any(holds_int96(f.type) for f in fields)
        return cls(
            schema,
            int96,
            _timestamp_marks(schema) if int96 else {},
            tuple(f.name for f in fields if f.type.root in (Root.FLOAT, Root.DOUBLE)),
            _first_leaves(schema),
            tuple(f.name for f in fields if is_int96(f.type)),
            pa.schema([f.with_type(_without_timestamps(f.type)) for f in schema]) if int96 else schema,
            tuple(i for i, f in enumerate(schema) if pa.types.is_nested(f.type)),
        )


def _without_timestamps(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return t if t.unit == "ns" else pa.int64()
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_without_timestamps(f.type)) for f in (t.field(i) for i in range(t.num_fields))])
    if pa.types.is_map(t):
        key, item = (f.with_type(_without_timestamps(f.type)) for f in (t.key_field, t.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_without_timestamps(t.value_type)))
    return t


def _first_leaves(schema: pa.Schema) -> dict[str, int]:
    """Return the number of each top-level column's first leaf column. By order, not by path: a column's name may hold dots."""
    counts = [len(list(leaf_paths(f.name, f.type))) for f in schema]
    return dict(zip(schema.names, accumulate(counts, initial=0), strict=False))


def _timestamp_marks(schema: pa.Schema) -> dict[int, TimestampMark]:
    """Return by number of the leaf column the annotation of every timestamp that is not INT96."""
    from lakeidx.data.parquet.footer import TimestampMark

    leaves = [t for field in schema for _, t in leaf_paths(field.name, field.type)]
    return {
        i: TimestampMark(t.unit, t.tz is not None)
        for i, t in enumerate(leaves)
        if pa.types.is_timestamp(t) and t.unit != "ns"
    }
