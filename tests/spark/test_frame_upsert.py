"""Batches whose rows never come to the driver: tasks may return 1 MiB, and the driver may hold nothing of a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_SECONDS

pytestmark = pytest.mark.spark

#: A first batch, then one that updates half of the keys. Spark refuses more than 1 MiB of results: less than ten bytes for each row
#: would be too many.
_RUN = """
import sys
from pyspark.sql import functions as sf
from lakeidx.api import Table
from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport
from lakeidx.spark import upsert
from lakeidx.spark.datasource import FORMAT, register
from lakeidx.spark.session import get_session
from lakeidx.table.handle import TableHandle

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

# The process in which Spark commits a write has no session, and may hold nothing of a batch either: it starts processes.
frame(0, "c").write.format(FORMAT).mode("append").option("batch-id", "3").save(table.uri)
after = TableHandle.open(table.uri)
assert after.snapshot.id == 3
placed = BatchFiles(after.store, after.metadata.paths, "3").require(BucketAssignmentReport)
assert placed.placing_tasks
found = spark.read.format(FORMAT).load(table.uri).groupBy("v").count().collect()
assert {r.v: r["count"] for r in found} == {"b": ROWS // 2, "c": ROWS}, found
print("all is well")
"""


def test_batches_whose_rows_never_come_to_the_driver(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path)], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "all is well" in run.stdout
