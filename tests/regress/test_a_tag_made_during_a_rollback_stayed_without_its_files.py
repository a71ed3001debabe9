"""A tag that was put on a snapshot while that was rolled back stayed, and the files it named were gone.

The rollback had looked for tags before, and the tag was put before the snapshot's file went.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.tags import create_tag
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.slow

#: More calls of the store than either makes.
CALLS = 120
TARGET, TAGGED = 2, 4
#: What the snapshot of the tagged id holds, and what the one does that has the id after the rollback.
OLD = {(1, key) for key in range(TAGGED)}
NEW = {(1, 0), (1, 1), (2, 0), (2, 1)}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path / "made")
    for key in range(TAGGED):
        upsert(made, [(1, key, f"v{key}")])
    return made


def roll_back(table: Table) -> None:
    roll_back_table(table.metadata, table.schema, snapshot_id=TARGET)


def roll_back_and_go_on(table: Table) -> None:
    """The id that is tagged is used again."""
    roll_back(table)
    for key in range(TAGGED):
        upsert(table, [(2, key, "later")])


def tag(table: Table) -> None:
    create_tag(table.metadata, "late", snapshot_id=TAGGED)


@pytest.mark.parametrize(
    ("program", "other"),
    [(roll_back, tag), (tag, roll_back), (tag, roll_back_and_go_on)],
    ids=["a tag during a rollback", "a rollback during a tag", "with batches after it"],
)
def test_a_tag_that_stays_has_its_files(
    table: Table,
    tmp_path: Path,
    program: Callable[[Table], None],
    other: Callable[[Table], None],
) -> None:
    for at in range(CALLS):
        root = tmp_path / str(at) / "t"
        shutil.copytree(table.uri, root)
        theirs = Table.open(str(root))
        store = FaultStore(theirs.store)
        fault = store.fail((), act=lambda *_, handle=theirs: attempt(other, handle), skip=at, times=1)
        attempt(program, Table(store, theirs.paths))
        after = Table.open(str(root))
        assert after.metadata.snapshot_ids()[:2] == [1, 2], f"call {at}"
        for name in after.metadata.tag_names():
            assert set(content(after, tag=name)) in (OLD, NEW), f"call {at}: {name}"
        shutil.rmtree(root.parent)
        if not fault.hits:
            return
    pytest.fail("it makes more calls")


def attempt(what: Callable[[Table], None], handle: Table) -> None:
    try:
        what(handle)
    except LakeIdxError:
        return
