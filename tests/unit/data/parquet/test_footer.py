"""Timestamp annotations in footers."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.footer import TimestampMark, change_footer
from lakeidx.errors import InternalError


def parquet_bytes(columns: int) -> bytes:
    fields = [
        pa.field(
            f"c{i}", pa.int64() if i % 3 else pa.list_(pa.int64()), i % 2 == 0, metadata={"PARQUET:field_id": f"{i}"}
        )
        for i in range(columns)
    ]
    out = io.BytesIO()
    rows = [[i] if pa.types.is_list(f.type) else i for i, f in enumerate(fields)]
    table = pa.Table.from_arrays(
        [pa.array([v], f.type) for v, f in zip(rows, fields, strict=True)], schema=pa.schema(fields)
    )
    pq.write_table(table, out, store_schema=False, version="1.0")
    return out.getvalue()


@pytest.mark.parametrize("columns", [2, 5, 40])
def test_marked_columns_become_timestamps_and_nothing_else_changes(columns: int) -> None:
    raw = parquet_bytes(columns)
    marks = {i: m for i, m in ((1, TimestampMark("ms", utc=False)), (4, TimestampMark("us", utc=True))) if i < columns}
    changed = change_footer(raw, marks)
    before, after = (pq.ParquetFile(io.BytesIO(b)) for b in (raw, changed))
    wanted = {1: pa.timestamp("ms"), 4: pa.timestamp("us", "UTC")}
    for i, field in enumerate(before.schema_arrow):
        found = after.schema_arrow.field(i)
        assert found.type == wanted.get(i, field.type)
        assert found.nullable == field.nullable
        assert found.metadata == field.metadata
    assert after.read().column("c1").cast(pa.int64()) == before.read().column("c1")


def test_leaves_are_counted_not_named() -> None:
    """A nested column may have the field id of another one."""
    inner = pa.struct(
        [pa.field(n, pa.int64(), metadata={"PARQUET:field_id": i}) for n, i in (("f0", "0"), ("f1", "1"))]
    )
    fields = [
        pa.field("c0", pa.int64(), metadata={"PARQUET:field_id": "0"}),
        pa.field("c1", pa.list_(inner), metadata={"PARQUET:field_id": "1"}),
        pa.field("c2", pa.map_(pa.string(), pa.int64()), metadata={"PARQUET:field_id": "2"}),
        pa.field("c3", pa.int64(), metadata={"PARQUET:field_id": "3"}),
    ]
    out = io.BytesIO()
    pq.write_table(pa.schema(fields).empty_table(), out, store_schema=False)
    changed = change_footer(out.getvalue(), {1: TimestampMark("ms", utc=False), 4: TimestampMark("us", utc=True)})
    found = pq.ParquetFile(io.BytesIO(changed)).schema_arrow
    assert found.field("c0").type == found.field("c3").type == pa.int64()
    element = found.field("c1").type.value_type
    assert [element.field(i).type for i in range(2)] == [pa.timestamp("ms"), pa.int64()]
    assert found.field("c2").type.item_type == pa.timestamp("us", "UTC")


def test_a_leaf_of_another_type_is_our_own_mistake() -> None:
    raw = parquet_bytes(2)
    for leaf in (2, 7):
        with pytest.raises(InternalError, match=f"leaf column {leaf} of the footer is not INT64"):
            change_footer(raw, {leaf: TimestampMark("ms", utc=False)})


def test_what_is_no_footer_is_our_own_mistake() -> None:
    with pytest.raises(InternalError):
        change_footer(b"not parquet at all", {})
