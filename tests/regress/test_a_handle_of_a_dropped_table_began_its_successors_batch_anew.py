"""A batch of a table was applied twice: a program with a handle of the table before it had declared the batch's run void.

The stages of a batch read its reports by its id. One that was staged for a table that was dropped since took the reports of the
same id in the new table for those of a table that is gone.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.upsert import ingest_rows, make_context, upsert_table
from lakeidx.errors import TableReplacedError
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import make_table, rows


def test_the_batch_of_the_new_table_counts_once(tmp_path: Path) -> None:
    stale = make_context(make_table(tmp_path).metadata, "b1", runner=LocalRunner(1))
    stale.metadata.latest_schema()
    shutil.rmtree(stale.paths.root)
    # Each has the time it was created in its schema, in milliseconds.
    time.sleep(0.002)
    table = make_table(tmp_path)
    batch = rows([(1, 1, "new")])
    upsert_table(make_context(table.metadata, "b1", runner=LocalRunner(1)), batch)

    with pytest.raises(TableReplacedError):
        ingest_rows(stale, rows([(1, 1, "of the table before")]))

    again = upsert_table(make_context(Table.open(table.uri).metadata, "b1", runner=LocalRunner(1)), batch)
    assert again.already
    assert Table.open(table.uri).snapshot.id == 1  # type: ignore[union-attr]
