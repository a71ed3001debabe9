"""A batch lost a conflict, and the process died between the bucket assignment of the second attempt and its index write. The stage
commit, run again as Dagster does it, said that the index write had not run, and went on saying so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, make_context, write_attempt
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, rows, upsert


def test_the_stage_commit_writes_what_is_missing(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "first")])
    store = FaultStore(table.store)
    context = make_context(Table(store, table.paths).metadata, "b")
    ingest_rows(context, rows([(1, 2, "second")]))
    run_bucket_assignment(context, 1)
    write_attempt(context, 1)
    upsert(Table.open(table.uri), [(1, 9, "other")])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    fault = store.fail("put_if_absent", "/index_write-2.json", act=killed)
    with pytest.raises(KeyboardInterrupt):
        commit_batch(context)
    assert fault.hits == 1
    report = commit_batch(make_context(Table.open(table.uri).metadata, "b"))
    assert (report.attempt, report.already) == (2, False)
    assert content(Table.open(table.uri)) == {(1, 1): "first", (1, 2): "second", (1, 9): "other"}
