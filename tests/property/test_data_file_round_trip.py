"""Any rows of any types come back from a data file as they went in, and its statistics are those of a plain model."""

from __future__ import annotations

import tempfile
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.data.parquet.schema import is_int96
from lakeidx.data.read_data_file import read_data_file
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import BYTES_ROOTS, DataType, Field, Root
from tests.kit.scalar_twins import compare_values
from tests.unit.codec.strategies import any_types, not_null
from tests.unit.data.tables import STORE, kv_rows_of, kv_table, write_file

NO_BOUNDS = BYTES_ROOTS


def schema_of(types: list[DataType]) -> TableSchema:
    fields = [Field(i, f"c{i}", t) for i, t in enumerate(types)]
    ids = len(fields)
    # Nested fields get ids of their own; what they are does not matter here.
    return TableSchema(
        id=0,
        fields=(Field(ids, "k", DataType(Root.BIGINT, nullable=False)), *fields),
        highest_field_id=ids,
        primary_keys=("k",),
        options={"bucket": "1", "metadata.stats-mode": "full", "metadata.stats-dense-store": "false"},
    )


def model(values: list[Any], t: DataType) -> tuple[Any, Any, int | None]:
    """(min, max, null count) as Java has them in mode full."""
    if t.is_nested or t.root is Root.VARIANT:
        return None, None, None
    nulls, present = values.count(None), [v for v in values if v is not None]
    if not present or t.root in NO_BOUNDS or is_int96(t) or too_long(present):
        return None, None, nulls
    ordered = sorted(present, key=cmp_to_key(lambda a, b: compare_values(a, b, t)))
    return ordered[0], ordered[-1], nulls


def too_long(values: list[Any]) -> bool:
    """Values beyond what a footer takes; the strategies draw none."""
    return any(isinstance(v, str) and len(v.encode()) > 4000 for v in values)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_rows_and_statistics(data: st.DataObject) -> None:
    types = data.draw(st.lists(any_types, min_size=1, max_size=5), label="types")
    schema = schema_of(types)
    count = data.draw(st.integers(1, 6), label="rows")
    rows = [(i, *(data.draw(st.none() | not_null(t)) for t in types)) for i in range(count)]
    table = kv_table(schema, rows)
    with tempfile.TemporaryDirectory() as folder:
        file = write_file(table, schema, folder)
        back = pa.concat_tables(read_data_file(STORE, f"{folder}/{file.file_name}", file, schema, schema))
    assert back.schema.equals(schema.kv_arrow_schema)
    assert repr(kv_rows_of(back, schema)) == repr(kv_rows_of(table, schema))
    nullable = [f.type.with_nullable(True) for f in schema.fields]
    low, high = (
        decode_row(split_arity(raw)[1], nullable) for raw in (file.value_stats.min_values, file.value_stats.max_values)
    )
    assert file.value_stats.null_counts is not None
    found = [repr(x) for x in zip(low, high, file.value_stats.null_counts, strict=True)]
    assert found == [repr(model([r[i] for r in rows], f.type)) for i, f in enumerate(schema.fields)]
