"""Index types with Spark as the runner: moved rows are made in Spark's tasks, and the table is the dictionary's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.spark.runner import SparkRunner
from tests.kit.index_history import GLOBAL_TYPES, LOCAL_TYPES, IndexedTable, Model, apply, fixed_history
from tests.kit.small_tables import rows
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "over_partitions"), [("bloom", False), ("global-simple", True), ("cross-partition", True)]
)
def test_a_history_on_spark(spark: SparkSession, tmp_path: Path, name: str, over_partitions: bool) -> None:
    table = IndexedTable.make(tmp_path, name, (GLOBAL_TYPES if over_partitions else LOCAL_TYPES)[name])
    runner = SparkRunner(spark)
    model: Model = {}
    moved = 0
    for number, batch in enumerate(fixed_history(17, batches=3)):
        opened = Table.open(table.table.uri)
        columns = rows([(p, k, v) for p, k, v, _ in batch], [kind for *_, kind in batch])
        moved += upsert_table(make_context(opened.metadata, f"b{number}", runner=runner), columns).assign.moved
        apply(model, batch, over_partitions=over_partitions)
        table.check(model)
    assert (moved > 0) == over_partitions
