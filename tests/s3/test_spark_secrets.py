"""Storage options of Spark, also by Connect: executors get them, and nobody finds them in plans, logs or event logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeidx import Table
from tests.kit.s3_server import S3Server, s3_server

__all__ = ["s3_server"]
pytestmark = pytest.mark.s3

_PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from lakeidx.spark import register

uri, folder, connect, given = *sys.argv[1:3], sys.argv[3] == "connect", json.loads(sys.stdin.read())
builder = SparkSession.builder.remote("local[2]") if connect else SparkSession.builder.master("local[2]")
builder = builder.config("spark.ui.enabled", "false")
builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"file://{folder}")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
if not connect:
    spark.sparkContext.setLogLevel("INFO")
register(spark)
options = {f"storage.{name}": value for name, value in given.items()}
rows = spark.createDataFrame([(n, f"v{n}") for n in range(100)], "id bigint, v string")
rows.write.format("lakeidx").options(**options).mode("append").save(uri)
found = spark.read.format("lakeidx").options(**options).load(uri)
found.createOrReplaceTempView("t")
print("rows", found.count(), spark.sql("SELECT v FROM t WHERE id = 7").collect()[0][0])
found.explain("extended")
spark.sql("EXPLAIN EXTENDED SELECT count(*) FROM t").show(truncate=False)
try:
    spark.read.format("lakeidx").options(**{**options, "storage.nope": "1"}).load(uri).count()
except Exception as e:
    print(e)
spark.stop()
"""


@pytest.mark.parametrize("session", ["classic", "connect"])
def test_no_secret_shows(s3_server: S3Server, tmp_path: Path, session: str) -> None:
    uri = f"{s3_server.fresh_uri('wh')}/d.db/t"
    fields = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "2"}}
    Table.create(uri, spec, s3_server.storage_options)
    (tmp_path / "events").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, uri, str(tmp_path / "events"), session],
        input=json.dumps(s3_server.storage_options),
        capture_output=True,
        text=True,
        # PySpark takes a free port then, not 15002, which another server may have.
        env={k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"},
    )
    assert "rows 100 v7" in done.stdout, done.stderr[-3000:]
    assert Table.open(uri, s3_server.storage_options).scan().to_arrow().num_rows == 100
    logs = [f for f in (tmp_path / "events").rglob("*") if f.is_file()]
    assert logs
    shown = [done.stdout, done.stderr, *(f.read_bytes().decode("latin-1") for f in logs)]
    assert not [where for where, text in enumerate(shown) if s3_server.secret in text]
