"""The page "Query it from PySpark": its blocks run, and show what the table holds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeidx
from tests.docs.snippets import run_page

pytestmark = pytest.mark.spark


def test_the_blocks_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        assert run_page("docs/query/spark.md", tmp_path, spark=spark) == 6
        rows = lakeidx.Warehouse("lake").table("shop.orders").scan(where="id = 30").to_arrow().to_pylist()
        assert rows == [{"id": 30, "day": "2026-11-01", "total": Decimal("12.50")}]
        assert lakeidx.Warehouse("lake").table("shop.copy").scan().to_arrow().num_rows == 31
        assert [tuple(r) for r in spark.sql("SELECT count(*) FROM early").collect()] == [(5,)]
    finally:
        spark.sql("DROP TABLE IF EXISTS orders")
        spark.sql("DROP TABLE IF EXISTS other_orders")
        spark.sql("DROP VIEW IF EXISTS early")
