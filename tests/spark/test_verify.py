"""A verification whose files are read in Spark's tasks says what one in this process says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table

pytestmark = pytest.mark.spark


def test_the_verdict_of_tasks(tmp_path: Path, spark: SparkSession) -> None:
    fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}]
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}
    spec = {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options}
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    table.upsert(pa.table({"p": pa.array([k % 2 for k in range(200)], pa.int32()), "k": range(200)}))

    whole = table.verify(runner=spark)
    assert whole.passed
    assert whole.as_dict() == table.verify().as_dict()

    damaged = next(Path(table.uri).rglob("data-*.parquet"))
    data = bytearray(damaged.read_bytes())
    data[20] ^= 0xFF
    damaged.write_bytes(data)
    found = Table.open(table.uri).verify(runner=spark)
    assert [r.name for r in found.findings] == ["files_readable"]
    assert str(damaged) in str(found.findings[0].sample)
