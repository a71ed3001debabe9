"""Paimon's primary-key table on Spark, as lakeidx makes it: dynamic buckets of 500,000 keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.peers.base import KEYS
from bench.peers.spark import SparkPeer, jar


class ThisPeer(SparkPeer):
    """An insert is an upsert."""

    @classmethod
    def settings(cls, folder: Path) -> Mapping[str, str]:
        return {
            "spark.jars": jar(),
            "spark.sql.catalog.peer": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.peer.warehouse": f"file:{folder}",
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        }

    def create(self, columns: str) -> None:
        options = f"'primary-key' = '{','.join(KEYS)}', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '500000'"
        self.spark.sql(f"CREATE TABLE {self.table} ({columns}) TBLPROPERTIES ({options})")

    def upsert(self, file: Path) -> None:
        self.spark.read.parquet(str(file)).createOrReplaceTempView("rows")
        self.spark.sql(f"INSERT INTO {self.table} SELECT * FROM rows")

    def compact(self) -> None:
        self.spark.sql(f"CALL peer.sys.compact(table => '{self.short}', compact_strategy => 'full')")
