"""Batches whose rows never come to the driver: tasks may return 1 MiB, and the driver may hold nothing of a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

#: A first batch, then one that updates half of the keys. Spark refuses more than 1 MiB of results: less than ten bytes for each row
#: would be too many.
_RUN = """
import sys
from pyspark.sql import functions as sf
from lakeidx.api import Table
from lakeidx.errors import LakeIdxError
from lakeidx.spark import upsert
from lakeidx.spark.datasource import FORMAT, register
from lakeidx.spark.session import get_session

folder = sys.argv[1]
spark = get_session(master="local[2]", config={"spark.driver.maxResultSize": "1m"})
register(spark)
ROWS = 100_000
SPEC = {
    "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["p", "k"], "partitionKeys": ["p"],
}

def frame(first, value):
    k = (sf.col("id") + first).alias("k")
    return spark.range(0, ROWS, 1, 4).select((sf.col("id") % 2).cast("int").alias("p"), k, sf.lit(value).alias("v"))

for kind in ("hash", "global-bloom", "state"):
    options = {"bucket": "-1", "index.type": kind, "index.driver-memory": "0"}
    table = Table.create(f"{folder}/d.db/{kind}", {**SPEC, "options": options})
    first = upsert(frame(0, "a"), table.uri, batch_id="1")
    second = upsert(frame(ROWS // 2, "b"), table.uri, batch_id="2")
    assert (first.assign.inserts, first.assign.updates) == (ROWS, 0), first
    assert (second.assign.inserts, second.assign.updates) == (ROWS // 2, ROWS // 2), second
    assert second.assign.placing_tasks
    assert upsert(frame(ROWS // 2, "b"), table.uri, batch_id="2").already
    found = spark.read.format(FORMAT).load(table.uri).groupBy("v").count().collect()
    assert {r.v: r["count"] for r in found} == {"a": ROWS // 2, "b": ROWS}, (kind, found)

try:
    frame(0, "c").write.format(FORMAT).mode("append").save(table.uri)
except Exception as error:
    assert "call lakeidx.spark.upsert(frame, table)" in str(error), error
else:
    raise AssertionError("one process wrote what the driver may not hold")
assert Table.open(table.uri).snapshot.id == 2
print("all is well")
"""


def test_batches_whose_rows_never_come_to_the_driver(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path)], capture_output=True, text=True, check=False, timeout=900
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "all is well" in run.stdout
