"""A stage `commit` said `already` for a batch whose snapshot another program had committed and a rollback had taken away.

The program was between two stages of the batch meanwhile: it read the report of the run that it had begun, which says nothing of
what came after.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import BatchContext
from lakeidx.batch.upsert import commit_batch, ingest_rows, make_context, upsert_table, write_attempt
from lakeidx.errors import CommitConflictError
from lakeidx.tasks.runner import LocalRunner
from tests.kit.shared_table.calls import expire, roll_back
from tests.kit.small_tables import content, make_table, rows


def test_the_commit_that_follows_is_refused_and_the_next_run_lands(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert_table(_context(table), rows([(1, 1, "first")]))
    batch = rows([(1, 2, "second")])
    slow = _staged(table, batch)
    upsert_table(_context(table, "b1"), batch)
    roll_back(Table.open(table.uri), {"snapshot_id": 1})

    with pytest.raises(
        CommitConflictError, match=r"'b1' cannot be committed, since its snapshot 2 was rolled back: run it again"
    ):
        commit_batch(slow)
    assert _keys(table) == [1]

    assert not upsert_table(_context(table, "b1"), batch).already
    assert _keys(table) == [1, 2]


def test_so_it_is_when_the_snapshot_id_no_longer_decides(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert_table(_context(table), rows([(1, 1, "first")]))
    batch = rows([(1, 2, "second")])
    slow = _staged(table, batch)
    upsert_table(_context(table, "b1"), batch)
    roll_back(Table.open(table.uri), {"snapshot_id": 1})
    for number in (2, 3):
        upsert_table(_context(table, f"other{number}"), rows([(1, 10 + number, "other")]))
    expire(Table.open(table.uri), 1)

    with pytest.raises(CommitConflictError, match="since the batch was begun anew: run it again"):
        commit_batch(slow)
    assert _keys(table) == [1, 12, 13]


def _context(table: Table, batch_id: str = "b0") -> BatchContext:
    return make_context(Table.open(table.uri).metadata, batch_id, runner=LocalRunner(1))


def _staged(table: Table, batch: pa.Table) -> BatchContext:
    context = _context(table, "b1")
    ingest_rows(context, batch)
    write_attempt(context, 1)
    return context


def _keys(table: Table) -> list[int]:
    return sorted(key for _, key in content(Table.open(table.uri)))
