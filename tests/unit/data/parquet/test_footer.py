"""Timestamp annotations in footers."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.footer import TimestampMark, annotate_timestamps
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
    marks = {1: TimestampMark("ms", utc=False), 4: TimestampMark("us", utc=True), 0: TimestampMark("us", utc=True)}
    changed = annotate_timestamps(raw, marks)
    before, after = (pq.ParquetFile(io.BytesIO(b)) for b in (raw, changed))
    wanted = {1: pa.timestamp("ms"), 4: pa.timestamp("us", "UTC")}
    for i, field in enumerate(before.schema_arrow):
        found = after.schema_arrow.field(i)
        # Column 0 is a list: its own element is no INT64 leaf of field id 0.
        assert found.type == wanted.get(i, field.type)
        assert found.nullable == field.nullable
        assert found.metadata == field.metadata
    assert after.read().column("c1").cast(pa.int64()) == before.read().column("c1")


def test_no_marks_leave_the_footer_as_it_is() -> None:
    raw = parquet_bytes(7)
    assert annotate_timestamps(raw, {}) == raw


def test_what_is_no_footer_is_our_own_mistake() -> None:
    with pytest.raises(InternalError):
        annotate_timestamps(b"not parquet at all", {})
