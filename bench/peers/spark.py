"""Table formats on Spark 4.0: `local[2]`, the memory that the other benchmarks give it, reads by SQL."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from bench.peers.base import KEYS, NEWER, SET_TO, SUMMED, UPDATED, Answer, Peer


def session(settings: Mapping[str, str]) -> SparkSession:
    """Open a session with the settings of a format."""
    builder = SparkSession.builder.master("local[2]").appName("peers")
    common = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Not the 200 that are meant for clusters.
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
    }
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def jar() -> str:
    """Return the jar that the benchmark has found for this peer."""
    return os.environ["LAKEIDX_PEER_JAR"]


class SparkPeer(Peer):
    """One session for all rounds; every round has a namespace of its own."""

    spark: SparkSession
    catalog = "peer"

    @classmethod
    @abstractmethod
    def settings(cls, folder: Path) -> Mapping[str, str]:
        """Return settings of the session; the warehouse is below the folder."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(folder, rows)
        self.spark = session(self.settings(folder.parent))
        self.short = f"{folder.name}.lineitem"
        self.table = f"{self.catalog}.{self.short}"

    @abstractmethod
    def create(self, columns: str) -> None:
        """Create the table."""

    def load(self, file: Path) -> None:
        rows = self.spark.read.parquet(str(file))
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{self.folder.name}")
        self.create(", ".join(f"{f.name} {f.dataType.simpleString()} NOT NULL" for f in rows.schema.fields))
        rows.createOrReplaceTempView("rows")
        self.spark.sql(f"INSERT INTO {self.table} SELECT * FROM rows")

    def upsert(self, file: Path) -> None:
        self._merge(file, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete(self, file: Path) -> None:
        self._merge(file, "WHEN MATCHED THEN DELETE")

    def update(self) -> None:
        self.spark.sql(f"UPDATE {self.table} SET {SUMMED} = {SET_TO} WHERE {UPDATED}")

    def merge(self, file: Path) -> None:
        newer = NEWER.format(source="s", target="t")
        self._merge(file, f"WHEN MATCHED AND {newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def _merge(self, file: Path, clauses: str) -> None:
        self.spark.read.parquet(str(file)).createOrReplaceTempView("rows")
        on = " AND ".join(f"t.{k} = s.{k}" for k in KEYS)
        self.spark.sql(f"MERGE INTO {self.table} t USING rows s ON {on} {clauses}")

    def scan(self) -> Answer:
        """Read all columns into nothing, counted and summed on the way."""
        return self._observed(self.spark.table(self.table))

    def lookup(self, file: Path) -> Answer:
        keys = pq.read_table(file)
        wanted = F.broadcast(self.spark.createDataFrame(keys))
        some = F.col(KEYS[0]).isin(keys.column(KEYS[0]).to_pylist())
        rows = self.spark.table(self.table).where(some).join(wanted, list(KEYS), "leftsemi").toArrow()
        return Answer(rows.num_rows, sum(rows.column(SUMMED).to_pylist()))

    def _observed(self, rows: DataFrame) -> Answer:
        seen = Observation()
        counted = rows.observe(seen, F.count(F.lit(1)).alias("rows"), F.sum(SUMMED).alias("total"))
        counted.write.format("noop").mode("overwrite").save()
        return Answer(seen.get["rows"], seen.get["total"] or 0)

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        return [self.spark.table(self.table).select(*(columns or ["*"])).toArrow()]

    def found(self, keys: pa.Table) -> pa.Table:
        raise AssertionError("lookup is Spark's own")
