"""The pipeline on a real S3 server: batches, time travel, Spark, and Java in both directions.

Writers that race while the server fails are in `tests/contract/test_faulty_histories.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.landing.read import LandingOptions
from lakeidx.spark.runner import SparkRunner
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon, require_java_paimon
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import SPEC, content, rows
from tests.kit.spark_fixture import spark
from tests.kit.upserts import upsert_files, upsert_table

__all__ = ["s3_server", "spark"]
pytestmark = pytest.mark.s3


@pytest.fixture
def table(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table in a warehouse of its own, reached by environment variables as an operator would."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return Table.create(f"{s3_server.fresh_uri('wh')}/d.db/t", SPEC)


def batch(table: Table, name: str, values: list[tuple[int, int, str | None]], **options: Any) -> Any:
    return upsert_table(make_context(table.metadata, name, **options), rows(values))


def test_batches_time_travel_and_overwrite(table: Table, tmp_path: Path) -> None:
    batch(table, "one", [(p, k, "a") for p in (1, 2) for k in range(30)])
    # A local landing file for a table on S3, and one that lies on S3 beside it.
    local = tmp_path / "two.csv"
    local.write_text("p,k,v\n1,0,b\n3,1,c\n1,x,bad\n")
    remote = table.uri.rsplit("/", 2)[0] + "/landing/two.jsonl"
    table.store.put(remote, b'{"p": 2, "k": 0, "v": "d"}\n')
    result = upsert_files(
        make_context(table.metadata, "two", runner=LocalRunner(2)), [str(local), remote], LandingOptions()
    )
    assert result.ingest.rows_rejected == 1
    wanted: dict[tuple[int, int], str | None] = {(p, k): "a" for p in (1, 2) for k in range(30)}
    assert content(table, snapshot=1) == wanted
    wanted |= {(1, 0): "b", (3, 1): "c", (2, 0): "d"}
    assert content(table) == wanted
    again = upsert_files(make_context(table.metadata, "two"), [str(local), remote], LandingOptions())
    assert again.commit.snapshot_ids == (2,)
    batch(table, "three", [(1, 99, "only")], overwrite="partitions")
    wanted = {k: v for k, v in wanted.items() if k[0] != 1} | {(1, 99): "only"}
    fresh = Table.open(table.uri)
    assert content(fresh) == wanted
    assert fresh.metadata.snapshot_ids() == [1, 2, 3]
    assert content(fresh, timestamp_ms=fresh.metadata.load_snapshot(1).time_millis)[(1, 0)] == "a"


@pytest.mark.spark
def test_spark_writes_to_s3(table: Table, spark: SparkSession, s3_server: S3Server) -> None:
    runner = SparkRunner(spark)
    # Workers do not see this test's environment: the options travel with the table.
    stored = Table.open(table.uri, s3_server.storage_options)
    batch(stored, "one", [(p, k, "a") for p in (1, 2) for k in range(30)], runner=runner)
    batch(stored, "two", [(2, k, "b") for k in range(20, 40)], runner=runner)
    wanted = {(1, k): "a" for k in range(30)} | {(2, k): "a" if k < 20 else "b" for k in range(40)}
    assert content(Table.open(table.uri)) == wanted


def test_java_reads_and_continues_writing(table: Table, s3_server: S3Server, tmp_path: Path) -> None:
    require_java_paimon()
    warehouse = table.uri.rsplit("/", 2)[0]
    environment = {**s3_server.environment, "S3_ENDPOINT": s3_server.endpoint_url}
    java = JavaPaimon(warehouse, "d.t", environment)
    batch(table, "one", [(p, k, "a") for p in (1, 2) for k in range(25)])
    wanted: dict[tuple[int, int], str | None] = {(p, k): "a" for p in (1, 2) for k in range(25)}

    def java_content() -> dict[tuple[int, int], str | None]:
        found = java.json("read")
        out = {(r["p"], r["k"]): r["v"] for r in found}
        assert len(out) == len(found)
        return out

    assert java_content() == wanted
    java.write(
        [{"p": "2", "k": str(k), "v": "java", "_kind": "+I"} for k in range(20, 30)], tmp_path / "b.jsonl", compact=True
    )
    wanted |= {(2, k): "java" for k in range(20, 30)}
    fresh = Table.open(table.uri)
    assert content(fresh) == wanted
    batch(fresh, "three", [(2, 29, "lake"), (3, 1, "lake")])
    wanted |= {(2, 29): "lake", (3, 1): "lake"}
    assert java_content() == wanted == content(Table.open(table.uri))
    assert all(json.dumps(e) for e in java.json("index"))
