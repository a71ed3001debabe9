"""A rollback went back to a snapshot that an expiry took away at the same time: of four snapshots one removed the newest two, the
other the oldest three. The table was empty afterwards, or its only snapshot had no files. The same when the rollback named the
snapshot by a tag.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

#: More calls of the store than either makes.
CALLS = 120
TARGET = 2
ALL = {(1, i): f"v{i}" for i in range(4)}
ROLLED_BACK = {(1, i): f"v{i}" for i in range(TARGET)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table before either program."""
    folder = tmp_path_factory.mktemp("template")
    table = make_table(folder, options={"snapshot.num-retained.min": "1"})
    for key, value in ALL.items():
        upsert(table, [(*key, value)])
    create_tag(table.metadata, "t", snapshot_id=TARGET)
    return folder


@pytest.fixture
def make(template: Path, tmp_path: Path) -> Callable[[], Table]:
    numbers = iter(range(2 * CALLS))

    def made() -> Table:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(template, folder)
        return Table.open(f"{folder}/wh/d.db/t")

    return made


def expire(table: Table) -> None:
    """Keep the newest snapshot; a moment later than now, so that leases of this moment are alive."""
    now_ms = round(time.time() * 1000) + 1000
    expire_table(table.metadata, table.schema, now_ms=now_ms, retention=Retention(num_min=1, num_max=1, time_ms=0))


def roll_back(table: Table) -> None:
    roll_back_table(table.metadata, table.schema, snapshot_id=TARGET)


def roll_back_to_tag(table: Table) -> None:
    roll_back_table(table.metadata, table.schema, tag="t")


def run(table: Table, program: Callable[[Table], None], other: Callable[[Table], None], *, at: int) -> bool:
    """Run a program, and all of the other one at its call number `at`; False when it makes fewer. Check the table then."""
    done: list[str] = []

    def attempt(what: Callable[[Table], None], handle: Table) -> None:
        try:
            what(handle)
        except LakeIdxError:
            return
        done.append(what.__name__)

    store = FaultStore(table.store)
    fault = store.fail((), act=lambda *_: attempt(other, Table.open(table.uri)), skip=at, times=1)
    attempt(program, Table(store, table.paths))
    newest = Table.open(table.uri)
    assert content(newest) == (ROLLED_BACK if any("roll_back" in d for d in done) else ALL), f"call {at}: {done}"
    for snapshot_id in newest.metadata.snapshot_ids():
        newest.scan(snapshot=snapshot_id).to_arrow()
    upsert(newest, [(2, 1, "later")])
    assert content(Table.open(table.uri))[2, 1] == "later"
    return fault.hits > 0


@pytest.mark.parametrize("at", [35, 45, 55])
def test_the_expiry_comes_in_between(make: Callable[[], Table], at: int) -> None:
    assert run(make(), roll_back, expire, at=at)


@pytest.mark.parametrize("at", [10, 20, 30])
def test_the_rollback_comes_in_between(make: Callable[[], Table], at: int) -> None:
    assert run(make(), expire, roll_back, at=at)


@pytest.mark.parametrize("at", [31, 35])
def test_the_rollback_to_a_tag_comes_in_between(make: Callable[[], Table], at: int) -> None:
    assert run(make(), expire, roll_back_to_tag, at=at)


@pytest.mark.slow
def test_the_snapshot_of_the_tag_has_expired_before(make: Callable[[], Table]) -> None:
    """While it is back and newer ones are not gone yet, it stands before a gap."""

    def expired() -> Table:
        table = make()
        expire(table)
        assert table.metadata.snapshot_ids() == [4]
        return table

    calls = next(at for at in range(0, CALLS, 2) if not run(expired(), roll_back_to_tag, expire, at=at))
    assert calls > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "other"),
    [(roll_back, expire), (expire, roll_back), (expire, roll_back_to_tag)],
)
def test_at_every_call(
    make: Callable[[], Table], program: Callable[[Table], None], other: Callable[[Table], None]
) -> None:
    calls = next(at for at in range(CALLS) if not run(make(), program, other, at=at))
    assert calls > 40
