"""Delta on Spark, with deletion vectors: MERGE INTO marks old rows and writes new ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.peers.base import SUMMED, Answer
from bench.peers.spark import SparkPeer

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


class ThisPeer(SparkPeer):
    """Compaction is OPTIMIZE after the deletion vectors are purged."""

    catalog = "spark_catalog"

    @classmethod
    def settings(cls, folder: Path) -> Mapping[str, str]:
        return {
            "spark.jars.packages": PACKAGE,
            # Annotations alone, which Ivy does not find where Maven has fetched their descriptions only.
            "spark.jars.excludes": "com.google.code.findbugs:jsr305,javax.annotation:javax.annotation-api",
            # The log of a table is computed in so many tasks, 50 otherwise.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.warehouse.dir": f"file:{folder}",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        }

    def create(self, columns: str) -> None:
        properties = "'delta.enableDeletionVectors' = 'true'"
        self.spark.sql(f"CREATE TABLE {self.table} ({columns}) USING delta TBLPROPERTIES ({properties})")

    def _observed(self, rows: DataFrame) -> Answer:
        # Delta does not choose its files in the plan of a write into nothing: the rows are read and dropped, and summed after that.
        count = rows._jdf.queryExecution().toRdd().count()
        total = rows.agg(F.sum(SUMMED)).collect()[0][0]
        return Answer(count, total or 0)

    def compact(self) -> None:
        self.spark.sql(f"REORG TABLE {self.table} APPLY (PURGE)")
        self.spark.sql(f"OPTIMIZE {self.table}")
