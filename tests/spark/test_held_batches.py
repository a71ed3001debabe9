"""Limits as an option of Spark's writes: the batch is held with its rows, and released or discarded later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx import Table
from lakeidx.errors import BatchHeldError
from lakeidx.spark import upsert

pytestmark = pytest.mark.spark


def test_a_frame_beyond_a_limit_is_held_and_its_rows_stay_staged(spark: Any, tmp_path: Path) -> None:
    spec = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"]}
    table = Table.create(f"{tmp_path}/a.db/t", {**spec, "options": {"bucket": "-1"}})
    table.upsert([{"id": n, "v": "a"} for n in range(100)])
    frame = spark.range(60).selectExpr("id", "'b' AS v")
    write = frame.write.format("lakeidx").mode("append").option("limits", "updates=50%").option("batch-id", "written")
    with pytest.raises(Exception, match=r"60 updates are 60\.0% of the table"):
        write.save(table.uri)
    with pytest.raises(BatchHeldError, match="held before its commit"):
        upsert(frame, table.uri, batch_id="upserted", options={"limits": "updates=50%"})
    assert {b["batch"] for b in table.held_batches()} == {"written", "upserted"}
    # Others come first, so the rows are read from where they were staged.
    table.upsert([{"id": 1, "v": "other"}, {"id": 500, "v": "other"}])
    assert table.release_batch("written").snapshots
    assert table.scan(where="v = 'b'").to_arrow().num_rows == 60
    table.discard_batch("upserted")
    upsert(frame, table.uri, batch_id="upserted")
    assert table.metadata.latest_snapshot_id() == 3
