"""Iceberg on Spark, format 2, merge-on-read: MERGE INTO writes position deletes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.peers.spark import SparkPeer

PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"


class ThisPeer(SparkPeer):
    """Compaction rewrites all data files."""

    @classmethod
    def settings(cls, folder: Path) -> Mapping[str, str]:
        return {
            "spark.jars.packages": PACKAGE,
            "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.peer.type": "hadoop",
            "spark.sql.catalog.peer.warehouse": f"file:{folder}",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        }

    def create(self, columns: str) -> None:
        modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("merge", "update", "delete"))
        self.spark.sql(
            f"CREATE TABLE {self.table} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '2', {modes})"
        )

    def compact(self) -> None:
        self.spark.sql(
            f"CALL peer.system.rewrite_data_files(table => '{self.short}', options => map('rewrite-all', 'true'))"
        )
