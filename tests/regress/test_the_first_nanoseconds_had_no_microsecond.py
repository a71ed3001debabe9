"""Nanoseconds of the first microsecond that 64 bits have: rounded down, Arrow's floor made the last moment of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.compaction.record_expiry import record_expiry
from lakeidx.data.cast import floor_moments
from lakeidx.format.schema.schema_file import new_schema

pytest.importorskip("pyspark")

from lakeidx.spark.values import arrow_schema, spark_schema, to_spark

FIRST = -(2**63) + 1
MOMENTS = [FIRST, -1_000_000_001, -1, 0, 1, 999, 1000, 2**63 - 1, None]


@pytest.mark.parametrize(("unit", "by"), [("us", 1000), ("ms", 10**6), ("s", 10**9)])
def test_moments_are_rounded_down(unit: str, by: int) -> None:
    found = floor_moments(pa.array(MOMENTS, pa.timestamp("ns", "UTC")), unit)
    assert found.type == pa.timestamp(unit, "UTC")
    assert found.cast(pa.int64()).to_pylist() == [None if m is None else m // by for m in MOMENTS]


def test_spark_reads_them_and_a_row_of_then_is_too_old() -> None:
    schema = new_schema(
        {"fields": [{"name": "id", "type": "INT"}, {"name": "t", "type": "TIMESTAMP(9)"},
                    {"name": "m", "type": {"type": "MAP", "key": "INT", "value": "TIMESTAMP(9)"}}],
         "primaryKeys": ["id"],
         "options": {"record-level.expire-time": "1 d", "record-level.time-field": "t", "bucket": "1"}}
    )  # fmt: skip
    moments = pa.array([FIRST], pa.timestamp("ns"))
    rows = pa.table({"id": pa.array([1], pa.int32()), "t": moments,
                     "m": pa.MapArray.from_arrays([0, 1], pa.array([1], pa.int32()), moments)})  # fmt: skip
    shown = to_spark(rows, arrow_schema(spark_schema(schema.fields)))
    assert shown.column("t").cast(pa.int64()).to_pylist() == [FIRST // 1000]
    rule = record_expiry(schema, now_ms=1_700_000_000_000)
    assert rule is not None
    assert rule.keeps(rows).to_pylist() == [False]
