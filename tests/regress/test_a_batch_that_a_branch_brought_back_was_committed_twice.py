"""A batch was rolled back, a branch with its snapshot was fast-forwarded, and the batch came again: its rows were added twice."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.snapshot_expiry import run_snapshot_expiry
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.table.expiration.tags import create_tag
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import LISTAGG, content, make_table, upsert

DAY = [(1, 1, "day")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """The batch `day` is in branch x, and not in the table any more."""
    made = make_table(tmp_path, options=LISTAGG)
    upsert(made, [(1, 1, "first")], batch_id="first")
    upsert(made, DAY, batch_id="day")
    create_tag(made.metadata, "one")
    make_branch(Path(made.uri), "x", "one")
    roll_back_table(made.metadata, made.schema, snapshot_id=1)
    return made


def bring_back(table: Table) -> Table:
    fast_forward(Path(table.uri), "x")
    return Table.open(table.uri)


def files_of(table: Table) -> BatchFiles:
    return BatchFiles(table.store, table.paths, "day")


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("meanwhile", ["nothing", "another batch", "itself"])
def test_a_batch_that_is_back_counts(table: Table, meanwhile: str, cleaned: bool) -> None:
    if meanwhile == "another batch":
        upsert(table, [(1, 1, "other")], batch_id="other")
    if meanwhile == "itself":
        assert not upsert(table, DAY, batch_id="day").already
    if cleaned:
        clean_staging(table.metadata, now_ms=int(time.time() * 1000) + 86_400_000)
    again = bring_back(table)
    for _ in range(2):
        result = upsert(again, DAY, batch_id="day")
        assert (result.already, result.commit.snapshot_ids) == (True, (2,))
    assert content(Table.open(table.uri)) == {(1, 1): "first,day"}
    with pytest.raises(InvalidInputError, match="was ingested with other content"):
        upsert(again, [(1, 1, "night")], batch_id="day")


def test_it_is_refused_when_nobody_knows_what_it_was_made_of(table: Table) -> None:
    for report in Path(files_of(table).directory).glob("*.json"):
        if not report.name.startswith("superseded-"):
            report.unlink()
    again = bring_back(table)
    for _ in range(2):
        with pytest.raises(
            InvalidInputError, match=r"batch 'day' is in the table again, with snapshot 2 .* reports are gone"
        ):
            upsert(again, DAY, batch_id="day")
    assert content(Table.open(table.uri)) == {(1, 1): "first,day"}


def expire_all_but_the_newest(table: Table) -> None:
    run_snapshot_expiry(table, retention={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_it_is_refused_when_its_snapshot_has_expired_again(table: Table, late: bool, dropped: bool) -> None:
    """Nothing tells then whether a branch, which may be gone as well, has brought the rows back."""
    if late:
        upsert(table, [(1, 1, "other")], batch_id="other")
        assert not upsert(table, DAY, batch_id="day").already
    again = bring_back(table)
    if dropped:
        shutil.rmtree(Path(table.uri, "branch"))
    upsert(again, [(1, 1, "more")], batch_id="more")
    expire_all_but_the_newest(again)
    for _ in range(2):
        with pytest.raises(
            InvalidInputError, match="'day' was rolled back with snapshot 2, and branch 'x' may have brought"
        ):
            upsert(again, DAY, batch_id="day")
    assert content(Table.open(table.uri)) == {(1, 1): "first,day,more"}
