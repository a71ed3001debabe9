"""Two processes ran a batch that had lost a conflict. One wrote its second attempt and committed it, and others let that expire;
the other one was still writing that attempt, missed a file of the state it was planned on, planned a third, and committed it, too:
it looked at the snapshots since, which were gone, and at the report of the third attempt only.

Its sibling: staging clean-up asked the newest attempt only whether a batch that stopped had been committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import CommitReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, make_context, write_attempt
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import LISTAGG, content, make_table, rows, upsert

pytestmark = pytest.mark.slow

NOW_MS = 4_000_000_000_000
OPTIONS = {**LISTAGG, "snapshot.num-retained.min": "1", "manifest.merge-min-count": "2"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options=OPTIONS)
    upsert(made, [(1, 1, "first")])
    return made


def context_of(table: Table, store: FaultStore | None = None) -> BatchContext:
    """The batch, as a process of its own runs it."""
    return make_context(Table(store or table.store, table.paths).metadata, "b")


def stage(table: Table) -> None:
    """Write the first attempt, which then loses to another batch."""
    context = context_of(table)
    ingest_rows(context, rows([(1, 1, "second"), (1, 2, "new")]))
    run_bucket_assignment(context, 1)
    write_attempt(context, 1)
    upsert(table, [(1, 9, "other")])


def commit_and_expire(table: Table, *, dies: bool) -> Callable[..., None]:
    """Have another process end the batch, and others go on, compact, and let everything before expire."""

    def act(*_: object) -> None:
        store = FaultStore(table.store)

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        if dies:
            store.fail("put_if_absent", "/commit.json", act=killed)
            with pytest.raises(KeyboardInterrupt):
                commit_batch(context_of(table, store))
        else:
            assert commit_batch(context_of(table)).attempt == 2
        other = Table.open(table.uri)
        upsert(other, [(1, 7, "later")])
        run_compaction(other.metadata, LocalRunner(1), full=True)
        upsert(other, [(1, 8, "later")])
        retention = Retention(num_min=1, num_max=1, time_ms=0)
        expire_table(other.metadata, other.schema, now_ms=NOW_MS, retention=retention)

    return act


EXPECTED = {
    (1, 1): "first,second",
    (1, 2): "new",
    (1, 9): "other",
    (1, 7): "later",
    (1, 8): "later",
}


def test_a_batch_that_stopped_after_a_third_attempt_counts_as_committed(table: Table) -> None:
    stage(table)
    # Both have planned the second attempt.
    run_bucket_assignment(context_of(table), 2)
    commit_and_expire(table, dies=True)()
    run_bucket_assignment(context_of(table), 3)
    write_attempt(context_of(table), 3)
    handle = Table.open(table.uri)
    assert context_of(table).files.latest_attempt() == 3
    report = clean_staging(handle.metadata, now_ms=NOW_MS)
    assert report.abandoned == ("b",)
    committed = context_of(table).files.read(CommitReport)
    assert committed is not None
    assert committed.attempt == 2
    assert content(handle) == EXPECTED
