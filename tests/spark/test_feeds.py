"""A feed of many tables whose batches run in tasks of Spark gives the tables of a plain copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeidx
from lakeidx.landing.types import LandingOptions
from tests.kit.many_tables import FEEDS, ManyTables

pytestmark = pytest.mark.spark


def test_tables_of_a_feed_that_spark_fills(spark: SparkSession, tmp_path: Path) -> None:
    source = ManyTables(11, tables=4).run(60)
    form, messages, _, _ = FEEDS["debezium-schema"]
    warehouse = lakeidx.Warehouse(tmp_path / "lake")
    for number, events in enumerate((source.events[:30], source.events[30:])):
        file = tmp_path / f"feed-{number}.json"
        file.write_text("".join(f"{m}\n" for m in messages(events)), encoding="utf-8")
        for _ in range(2):
            warehouse.sync_database("ods", [file], LandingOptions(form), runner=spark)
    source.check(warehouse)
