"""A batch died while it committed, before its snapshot was put, and was run again days later. A cleaner of another program, which
knows no staged batches, had removed its files. So it was committed with files that were not there: the table could not be read any
more. Or, when the snapshot that it was planned on had expired, it was taken for committed: its rows never came.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, CommitReport
from lakeidx.errors import CommitUnknownError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore, When
from tests.kit.shared_table.foreign import remove_orphans
from tests.kit.small_tables import content, make_table, upsert

ROWS = [(1, 1, "second"), (1, 3, "new")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    upsert(made, [(1, 1, "first")])
    return made


def die(table: Table, when: When) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/", when=when, act=killed)
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, table.paths), ROWS, batch_id="b")


def days_go_by(table: Table, days: int) -> None:
    old = time.time() - days * 86_400
    for path in (Path(table.uri).parents[1] / "_lakeidx").rglob("*.json"):
        os.utime(path, (old, old))


def others_write_and_expire(table: Table) -> None:
    other = Table.open(table.uri)
    upsert(other, [(2, 1, "other")])
    run_compaction(other.metadata, LocalRunner(1), full=True)
    upsert(other, [(2, 2, "other")])
    retention = Retention(num_min=1, num_max=1, time_ms=0)
    expire_table(other.metadata, other.schema, now_ms=4_000_000_000_000, retention=retention)


def test_the_batch_is_written_anew(table: Table) -> None:
    die(table, "before")
    days_go_by(table, 5)
    remove_orphans(Table.open(table.uri))
    result = upsert(Table.open(table.uri), ROWS, batch_id="b")
    assert not result.already
    assert content(Table.open(table.uri)) == {(1, 1): "second", (1, 3): "new"}


def test_what_cannot_be_determined_is_reported(table: Table) -> None:
    die(table, "before")
    days_go_by(table, 30)
    others_write_and_expire(table)
    remove_orphans(Table.open(table.uri))
    rows = {(1, 1): "first", (2, 1): "other", (2, 2): "other"}
    for _ in range(2):
        with pytest.raises(CommitUnknownError, match="cannot determine whether the batch was committed"):
            upsert(Table.open(table.uri), ROWS, batch_id="b")
        assert content(Table.open(table.uri)) == rows
        # Cleaning of staging does not settle it either.
        clean_staging(table.metadata, now_ms=int(time.time() * 1000) + 60 * 86_400_000)
        files = BatchFiles(table.store, table.paths, "b")
        assert files.was_committing(1)
        assert files.read(CommitReport) is None


@pytest.mark.parametrize(("days", "merged"), [(0, True), (5, False), (5, True)])
def test_a_batch_that_was_committed_is_not_committed_again(tmp_path: Path, days: int, merged: bool) -> None:
    # Until manifests are merged they name the files that a compaction has replaced.
    table = make_table(tmp_path, options={"manifest.merge-min-count": "1" if merged else "100"})
    upsert(table, [(1, 1, "first")])
    die(table, "after")
    others_write_and_expire(table)
    days_go_by(table, days)
    if merged and days:
        with pytest.raises(CommitUnknownError, match="cannot determine"):
            upsert(Table.open(table.uri), ROWS, batch_id="b")
    else:
        assert upsert(Table.open(table.uri), ROWS, batch_id="b").already
    found = content(Table.open(table.uri))
    assert found == {(1, 1): "second", (1, 3): "new", (2, 1): "other", (2, 2): "other"}
