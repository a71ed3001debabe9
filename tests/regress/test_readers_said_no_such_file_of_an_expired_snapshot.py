"""Changes, comparisons of states, the buckets of keys, advice, and the rules that compare two readers ended in "no such file".

Others came in at one of their storage calls and expired the snapshot. Who asks for the newest state gets the one that took its
place; who names states is told which one has expired, which are there, and what to do.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.alter import alter_table
from lakeidx.quality.changelog_agrees import check_changelog_agrees
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.testing.fault_store import FaultStore
from tests.kit.overtaking import Overtaken
from tests.kit.small_tables import make_table, memory_folder, upsert

pytestmark = pytest.mark.slow

KEY = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([2], pa.int64())})
RINGS = {
    "index.type": "bucket",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "8",
}
#: One line that names what has expired; nothing else may come of it.
SAYS = re.compile(
    r"expired while it was read \(.* is gone\); snapshots 7 to 7 exist, the oldest of \S+Z: read again, or keep|"
    r"snapshot \d does not exist; snapshots 7 to 7 exist|"
    r"the (commit|changelog) of snapshot \d has expired; those after 6 are left|"
    r"snapshot \d has expired; the file of that name .*; snapshots 7 to 7 exist|"
    r"the table needs two unexpired snapshots, the newer one an append"
)

#: Name of the reader -> changelog producer of the table, what it does.
NAMED: dict[str, tuple[str, Callable[[str], object]]] = {
    "delta": ("none", lambda uri: Table.open(uri).changes(1, 4, mode="delta").to_arrow().num_rows),
    "changelog": ("lookup", lambda uri: Table.open(uri).changes(1, 4).to_arrow().num_rows),
    "derived": ("none", lambda uri: Table.open(uri).changes(1, 3, mode="derived").to_arrow().num_rows),
    "diff": ("none", lambda uri: Table.open(uri).diff(2, 4).to_arrow().num_rows),
    "diff with a tag": ("none", lambda uri: Table.open(uri).diff("one", 4).to_arrow().num_rows),
    "up to the newest": ("none", lambda uri: Table.open(uri).changes(1).to_arrow().num_rows),
    "advise": ("none", lambda uri: type(Table.open(uri).advise()).__name__),
}


@pytest.fixture(scope="module")
def tables() -> Iterator[dict[str, Overtaken]]:
    """One with each changelog producer that is used here."""
    not_null = {"alter-column-null-to-not-null.disabled": "false"}
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        made = {n: Overtaken(Path(folder, n), {**not_null, "changelog-producer": n}) for n in ("none", "lookup")}
        yield {**made, "rings": Overtaken(Path(folder, "rings"), RINGS)}


@pytest.mark.parametrize("name", NAMED)
def test_who_names_a_state_is_told_that_it_has_expired(tables: dict[str, Overtaken], name: str) -> None:
    producer, act = NAMED[name]
    wrong = Counter({k: n for k, n in tables[producer].each_call(act).items() if not is_well(k)})
    assert not wrong


def is_well(came: str) -> bool:
    return "no such file" not in came and (len(came) < 20 or (SAYS.search(came) is not None and "\n" not in came))


def test_who_names_a_time_is_told_which_times_are_left(tables: dict[str, Overtaken]) -> None:
    """Not only ids, which nobody named."""
    table = tables["none"]
    before = f"{table.folder}/before/wh/d.db/t"
    second = Table.open(before).metadata.load_snapshot(2).time_millis

    def rows(uri: str) -> int:
        return int(Table.open(uri).scan(timestamp=second).to_arrow().num_rows)

    assert rows(before) == 3
    # Two threads read two files: who comes in at one of them deletes the other, unless it has been read.
    found = table.each_call(rows).keys() - {"3"}
    time = r"20\d\d-\S+Z"
    gone = re.compile(rf"no snapshot at or before {time}; the oldest is of {time}")
    overtaken = re.compile(
        rf"snapshot 2 of {time} expired while it was read \(.*\); snapshots 7 to 7 exist, the oldest of {time}: read again"
    )
    assert any(gone.search(k) for k in found)
    assert any(overtaken.search(k) for k in found)
    assert not [k for k in found if not gone.search(k) and not overtaken.search(k)]


def test_a_comparison_with_the_newest_state_goes_on_with_the_one_that_took_its_place(
    tables: dict[str, Overtaken],
) -> None:
    """While it is planned; rows that were given are of one state."""

    def act(uri: str) -> object:
        return Table.open(uri).changes("one", mode="diff").to_arrow().num_rows

    found = tables["none"].each_call(act)
    # A row has changed, 2 are new, and with what others wrote 3.
    assert found["5"] > 10
    assert all(k in ("4", "5") or is_well(k) for k in found)


def test_the_newest_state_answers_for_keys(tables: dict[str, Overtaken]) -> None:
    assert set(tables["none"].each_call(lambda uri: Table.open(uri).keys(KEY)["bucket"].to_pylist())) == {"[0]"}


def test_a_lookup_goes_on_wherever_it_is_asked(tables: dict[str, Overtaken]) -> None:
    """The join of Spark, the command line and the checks of batches ask the lookup itself."""

    def rows(uri: str) -> object:
        return TableLookup(Table.open(uri).metadata).lookup(KEY).rows["v"].to_pylist()

    def shard(uri: str) -> object:
        return TableLookup(Table.open(uri).metadata).shards(KEY).tolist()[0] >= 0

    table = tables["none"]
    assert set(table.each_call(rows)) == {"['b']"}
    assert set(table.each_call(shard)) == {"True"}


def test_deletes_are_counted_and_columns_examined_on_the_newest_state(tables: dict[str, Overtaken]) -> None:
    table = tables["none"]

    def deletes(uri: str) -> int:
        plan = Table.open(uri).delete(where="v = 'b'", dry_run=True)
        return -1 if plan is None else plan.deletes

    counted = table.each_call(deletes)
    assert set(counted) == {"1"}
    not_null = SchemaEdits(nullable={"v": False})
    assert set(table.each_call(lambda uri: alter_table(Table.open(uri), not_null, dry_run=True).changed)) == {"True"}


def test_a_resize_of_rings_is_planned_again(tables: dict[str, Overtaken]) -> None:
    found = tables["rings"].each_call(lambda uri: type(Table.open(uri).resize_rings(target_size=10)).__name__)
    assert set(found) == {"ResizeReport"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_rollback_says_that_its_snapshot_has_expired(tables: dict[str, Overtaken], *, dry_run: bool) -> None:
    """It said that files are missing."""

    def act(uri: str) -> int:
        table = Table.open(uri)
        return roll_back(table.metadata, table.schema, snapshot_id=2, dry_run=dry_run).snapshot_id

    says = re.compile(
        r"snapshot 2 of 20\S+Z expired while the rollback was planned; nothing was changed: roll back to one of snapshots 7 to 7|"
        r"snapshot 2 is being expired, or its expiry was interrupted: roll back to snapshot 7 or a newer one|"
        r"snapshot 2 (does not exist|has expired; the file of that name .*); snapshots 7 to 7 exist|"
        r"another rollback, to an older snapshot than 2,"
    )
    found = tables["none"].each_call(act)
    assert not [k for k in found if k != "2" and not says.search(k)]
    assert not dry_run or any("nothing was changed" in k for k in found)


def test_rules_judge_one_state_or_say_that_it_has_expired(tables: dict[str, Overtaken]) -> None:
    def looked_up(uri: str) -> tuple[bool, object]:
        found = check_lookup_agrees(Table.open(uri))
        return found.passed, found.metrics["sections_skipped"]

    def changelog(uri: str) -> tuple[bool, bool]:
        found = check_changelog_agrees(Table.open(uri))
        return found.passed, bool(found.metrics["buckets"]) != bool(found.metrics["states_expired"])

    assert set(tables["none"].each_call(looked_up)) == {"(True, 0)"}
    found = tables["lookup"].each_call(changelog)
    # At its beginning others may leave one snapshot: nothing has changed since.
    assert found["(True, True)"] > 20
    assert set(found) <= {"(True, True)", "(True, False)"}


def test_a_snapshot_of_the_same_id_after_a_rollback_is_asked_anew(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 2, "a")])
    upsert(table, [(1, 2, "gone")])
    store = FaultStore(table.store)

    def meanwhile(*_: str) -> None:
        there = Table.open(table.uri)
        roll_back(there.metadata, there.schema, snapshot_id=1)
        upsert(Table.open(table.uri), [(1, 2, "b")])

    store.fail("open_input", "data-", act=meanwhile)
    answer = TableLookup(Table(store, table.paths).metadata).lookup(KEY)
    assert answer.rows["v"].to_pylist() == ["b"]
