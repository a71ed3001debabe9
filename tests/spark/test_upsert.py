"""The whole pipeline on Spark gives what it gives in one process; the same over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.landing.read import LandingOptions
from lakeidx.spark.runner import SparkRunner
from lakeidx.tasks.runner import LocalRunner, Runner
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.spark_archive import OPTIONS
from tests.kit.spark_fixture import require_java
from tests.kit.upserts import upsert_files

pytestmark = pytest.mark.spark

SPEC: dict[str, Any] = {
    "fields": [
        {"name": "region", "type": "STRING"},
        {"name": "id", "type": "BIGINT"},
        {"name": "code", "type": "STRING"},
        {"name": "price", "type": "DECIMAL(12, 3)"},
        {"name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
    ],
    "primaryKeys": ["region", "id", "code"],
    "partitionKeys": ["region"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "150"},
}


def landing(folder: Path) -> list[list[Path]]:
    """Three batches: Parquet files and CSV; CSV with bad rows and deletes; Parquet again."""
    first = folder / "a.parquet"
    ids = list(range(1000))
    pq.write_table(
        pa.table(
            {
                "region": [("no\u00e9l", "a b")[i % 2] for i in ids],
                "id": ids,
                "code": [f"c{i % 7}" for i in ids],
                "price": pa.array([None if i % 5 == 0 else i for i in ids], pa.int64()),
                "tags": [["x", None]] * len(ids),
            }
        ),
        first,
        row_group_size=200,
    )
    second = folder / "b.csv"
    lines = [f"a b,{i},c{i % 7},{i}.125,+I" for i in range(900, 1100)]
    second.write_text("region,id,code,price,_kind\n" + "\n".join(lines) + "\n", encoding="utf-8")
    third = folder / "c.csv"
    kinds = [f"a b,{i},c{i % 7},7,{'-D' if i % 2 else '+U'}" for i in range(1, 99)]
    third.write_text(
        "region,id,code,price,_kind\n,5,x,1,+I\n" + "\n".join(kinds) + "\na b,x,y,1,+I\n", encoding="utf-8"
    )
    return [[first, second], [third], [first]]


def run(table: Table, runner: Runner, batches: list[list[Path]]) -> list[BatchResult]:
    return [
        upsert_files(
            make_context(table.metadata, f"b{i}", runner=runner),
            [str(f) for f in files],
            LandingOptions(missing="null"),
        )
        for i, files in enumerate(batches)
    ]


def test_three_batches_on_spark_and_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    batches = landing(tmp_path)
    here = Table.create(f"{tmp_path}/wh/d.db/here", SPEC)
    there = Table.create(f"{tmp_path}/wh/d.db/there", SPEC)
    mine = run(here, LocalRunner(2), batches)
    theirs = run(there, SparkRunner(spark), batches)
    order = [("region", "ascending"), ("id", "ascending"), ("code", "ascending")]
    assert there.scan().to_arrow().sort_by(order).equals(here.scan().to_arrow().sort_by(order))
    for a, b in zip(mine, theirs, strict=True):
        assert (a.assign.rows, a.assign.inserts, a.assign.updates, a.assign.deletes) == (
            b.assign.rows, b.assign.inserts, b.assign.updates, b.assign.deletes,
        )  # fmt: skip
        assert (a.ingest.rows_in, a.ingest.reject_reasons) == (b.ingest.rows_in, b.ingest.reject_reasons)
        assert (a.write.rows_written, a.write.data_files) == (b.write.rows_written, b.write.data_files)
    assert theirs[1].ingest.rows_rejected == 2


def test_bad_files_are_the_same_clear_errors(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/wh/d.db/bad", SPEC)
    (tmp_path / "x.parquet").write_bytes(b"not parquet at all")
    (tmp_path / "y.csv").write_text("other\n1\n")
    runner = SparkRunner(spark)
    with pytest.raises(CorruptFileError, match=r"x\.parquet"):
        run(table, runner, [[tmp_path / "x.parquet"]])
    with pytest.raises(InvalidInputError, match=r"y\.csv: the landing file lacks"):
        run(table, runner, [[tmp_path / "y.csv"]])
    assert table.snapshot is None


_CONNECT = """
import json, sys
from pathlib import Path
from lakeidx.landing.read import LandingOptions
from lakeidx.batch.context import make_context
from tests.kit.upserts import upsert_files
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.runner import get_session
from lakeidx.api.table import Table

session = get_session(remote="local[2]")
assert "connect" in type(session).__module__, type(session)
table = Table.open(sys.argv[1])
for number, files in enumerate(json.loads(sys.argv[2])):
    context = make_context(table.metadata, f"b{number}", runner=SparkRunner(session))
    upsert_files(context, files, LandingOptions(missing="null"))
print(json.dumps({"snapshots": table.metadata.snapshot_ids(), "slots": SparkRunner(session).parallelism}))
session.stop()
"""


def test_over_spark_connect(tmp_path: Path) -> None:
    require_java()
    batches = landing(tmp_path)
    here = Table.create(f"{tmp_path}/wh/d.db/here", SPEC)
    run(here, LocalRunner(2), batches)
    there = Table.create(f"{tmp_path}/wh/d.db/there", SPEC)
    done = subprocess.run(
        [sys.executable, "-c", _CONNECT, there.uri, json.dumps([[str(f) for f in b] for b in batches])],
        capture_output=True,
        text=True,
        # PySpark takes a free port then, not 15002, which another server may have.
        env={k: v for k, v in os.environ.items() if k == OPTIONS or not k.startswith("SPARK_")}
        | {"SPARK_TESTING": "1"},
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["snapshots"] == [1, 2, 3]
    order = [("region", "ascending"), ("id", "ascending"), ("code", "ascending")]
    assert Table.open(there.uri).scan().to_arrow().sort_by(order).equals(here.scan().to_arrow().sort_by(order))
