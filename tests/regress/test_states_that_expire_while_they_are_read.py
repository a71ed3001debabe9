"""Readers whose snapshot expires meanwhile."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import NotFoundError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.alter import alter_table
from lakeidx.quality.changelog_agrees import check_changelog_agrees
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.history import earliest_commit_id
from lakeidx.testing.fault_store import Fault, FaultStore
from tests.kit.overtaking import Overtaken
from tests.kit.shared_table import calls
from tests.kit.shared_table.foreign import make_branch
from tests.kit.small_tables import SPEC, content, filled_table, make_table, memory_folder, rows, upsert

# A command that looked at a snapshot while that expired ended in "manifest-list-…: no such file", or "buckets were not compacted".
#
# Who asks for the newest state gets the one that took its place; a scan that has given rows says what happened.

KEY = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([2], pa.int64())})
EXPECTED = {(1, 1): "new", (1, 2): "b", (2, 1): "c", (2, 9): "other"}
#: Verb and part of the path of the call at which others come in: the snapshot's lists are read, then its files.
MOMENTS: list[tuple[tuple[str, ...], str]] = [
    (("get",), "/manifest-list-"), (("get",), "/index-manifest-"), (("open_input", "get", "get_range", "get_ranges"), "/data-"),
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two partitions; the first bucket has three files."""
    made = make_table(tmp_path, options={"num-sorted-run.compaction-trigger": "2"})
    upsert(made, [(1, 1, "a"), (1, 2, "b"), (2, 1, "c")])
    for text in ("old", "new"):
        upsert(made, [(1, 1, text)])
    return Table.open(made.uri)


def others(uri: str) -> None:
    """Write, compact every bucket, and expire all snapshots but the newest."""
    upsert(Table.open(uri), [(2, 9, "other")])
    calls.compact(Table.open(uri), True)
    upsert(Table.open(uri), [(2, 9, "other")])
    for _ in range(2):
        calls.expire(Table.open(uri), 1)


def overtaken(
    table: Table, moment: tuple[tuple[str, ...], str], act: Callable[[Table], object]
) -> tuple[object, Fault]:
    """What a program gets while others come in once."""
    store = FaultStore(table.store)
    fault = store.fail(*moment, act=lambda *_: others(table.uri), times=1)
    seen = Table.__new__(Table)
    Table.__init__(seen, store, table.paths)
    return act(seen), fault


MAINTENANCE: list[Callable[[Table], object]] = [
    lambda t: t.compact(),
    lambda t: t.compact(full=True),
    lambda t: t.compact(full=True, partitions=["p=1"]),
    lambda t: calls.index_files(t),
    lambda t: t.build_lookup_store(),
    lambda t: t.verify(),
    lambda t: t.files(),
    lambda t: t.buckets(),
    lambda t: t.index_files(),
]
#: From here on they are lists.
LISTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("act", range(len(MAINTENANCE)))
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m[1])
def test_maintenance_goes_on_with_the_newest_state(table: Table, moment: tuple[tuple[str, ...], str], act: int) -> None:
    _, fault = overtaken(table, moment, MAINTENANCE[act])
    # Lists of files and buckets read no data file.
    assert fault.hits or (act >= LISTS and moment == MOMENTS[2])
    assert content(Table.open(table.uri)) == {k: v for k, v in EXPECTED.items() if fault.hits or v != "other"}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m[1])
def test_lookups_and_deletes_find_the_row(table: Table, moment: tuple[tuple[str, ...], str]) -> None:
    found, fault = overtaken(table, moment, lambda t: t.lookup(KEY))
    assert fault.hits
    assert isinstance(found, pa.Table)
    assert found.column("v").to_pylist() == ["b"]
    overtaken(table, moment, lambda t: t.delete(where="v = 'b'"))
    overtaken(table, moment, lambda t: t.delete(pa.table({"p": KEY["p"], "k": pa.array([1], pa.int64())})))
    assert content(Table.open(table.uri)) == {k: v for k, v in EXPECTED.items() if k[0] == 2}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS[:2], ids=lambda m: m[1])
def test_a_scan_is_planned_on_the_newest_state(table: Table, moment: tuple[tuple[str, ...], str]) -> None:
    found, fault = overtaken(table, moment, lambda t: t.scan().to_arrow().num_rows)
    assert fault.hits
    assert found == len(EXPECTED)


@pytest.mark.slow
def test_a_scan_says_that_its_snapshot_has_expired(table: Table) -> None:
    """Its rows may have been used already."""
    with pytest.raises(
        NotFoundError,
        match=r"snapshot 3 of .*Z expired while it was read \(.* is gone\); snapshots 6 to 6 exist, the oldest of .*Z: read again",
    ):
        overtaken(table, MOMENTS[2], lambda t: t.scan().to_arrow())


@pytest.mark.slow
def test_who_names_a_snapshot_wants_that_one(table: Table) -> None:
    with pytest.raises(NotFoundError, match=r"snapshot 1 of .*Z expired while it was read"):
        overtaken(table, MOMENTS[0], lambda t: t.scan(snapshot=1).to_arrow())


DAMAGED: list[Callable[[Table], object]] = [
    lambda t: t.scan().to_arrow(),
    lambda t: t.scan(tag="kept").to_arrow(),
    lambda t: t.compact(full=True),
]


@pytest.mark.slow
def test_a_file_that_is_missing_otherwise_is_named(table: Table) -> None:
    """Nothing has expired: the table is damaged. A tag keeps what has expired."""
    calls.tag(table, "kept", 2)
    upsert(table, [(2, 9, "other")])
    calls.expire(table, 1)
    for lost in [f.path for f in table.store.walk(table.uri) if "/p=1/" in f.path and "/data-" in f.path]:
        table.store.delete(lost)
    for act in DAMAGED:
        with pytest.raises(NotFoundError, match="no such file"):
            act(Table.open(table.uri))


# Changes, comparisons of states, the buckets of keys, advice, and the rules that compare two readers ended in "no such file".
#
# Others came in at one of their storage calls and expired the snapshot. Who asks for the newest state gets the one that took its
# place; who names states is told which one has expired, which are there, and what to do.

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


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_who_names_a_state_is_told_that_it_has_expired(tables: dict[str, Overtaken], name: str) -> None:
    producer, act = NAMED[name]
    wrong = Counter({k: n for k, n in tables[producer].each_call(act).items() if not is_well(k)})
    assert not wrong


def is_well(came: str) -> bool:
    return "no such file" not in came and (len(came) < 20 or (SAYS.search(came) is not None and "\n" not in came))


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_newest_state_answers_for_keys(tables: dict[str, Overtaken]) -> None:
    assert set(tables["none"].each_call(lambda uri: Table.open(uri).keys(KEY)["bucket"].to_pylist())) == {"[0]"}


@pytest.mark.slow
def test_a_lookup_goes_on_wherever_it_is_asked(tables: dict[str, Overtaken]) -> None:
    """The join of Spark, the command line and the checks of batches ask the lookup itself."""

    def rows(uri: str) -> object:
        return TableLookup(Table.open(uri).metadata).lookup(KEY).rows["v"].to_pylist()

    def shard(uri: str) -> object:
        return TableLookup(Table.open(uri).metadata).shards(KEY).tolist()[0] >= 0

    table = tables["none"]
    assert set(table.each_call(rows)) == {"['b']"}
    assert set(table.each_call(shard)) == {"True"}


@pytest.mark.slow
def test_deletes_are_counted_and_columns_examined_on_the_newest_state(tables: dict[str, Overtaken]) -> None:
    table = tables["none"]

    def deletes(uri: str) -> int:
        plan = Table.open(uri).delete(where="v = 'b'", dry_run=True)
        return -1 if plan is None else plan.deletes

    counted = table.each_call(deletes)
    assert set(counted) == {"1"}
    not_null = SchemaEdits(nullable={"v": False})
    assert set(table.each_call(lambda uri: alter_table(Table.open(uri), not_null, dry_run=True).changed)) == {"True"}


@pytest.mark.slow
def test_a_resize_of_rings_is_planned_again(tables: dict[str, Overtaken]) -> None:
    found = tables["rings"].each_call(lambda uri: type(Table.open(uri).resize_rings(target_size=10)).__name__)
    assert set(found) == {"ResizeReport"}


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_snapshot_of_the_same_id_after_a_rollback_is_asked_anew(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 2, "a")], [(1, 2, "gone")])
    store = FaultStore(table.store)

    def meanwhile(*_: str) -> None:
        there = Table.open(table.uri)
        roll_back(there.metadata, there.schema, snapshot_id=1)
        upsert(Table.open(table.uri), [(1, 2, "b")])

    store.fail("open_input", "data-", act=meanwhile)
    answer = TableLookup(Table(store, table.paths).metadata).lookup(KEY)
    assert answer.rows["v"].to_pylist() == ["b"]


# The changelog of a snapshot goes when the snapshot expires, though a tag or a branch keeps the rest: upkeep must not ask for it.
#
# Handles that have read it hide the fault, so each step opens the table anew, as another process does.

FIXED = {"bucket": "1"}
LONG_LIVED = {"changelog.num-retained.max": "20", "changelog.num-retained.min": "10", "changelog.time-retained": "1 d"}
CASES: list[Mapping[str, str]] = [
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup", **FIXED},
    {"changelog-producer": "full-compaction", **FIXED},
    {"changelog-producer": "input", **LONG_LIVED},
    {"changelog-producer": "none", **FIXED, **LONG_LIVED},
]


def tagged(folder: Path, options: Mapping[str, str]) -> str:
    """Make a table whose tag v1 outlives its snapshot; return its path."""
    path = f"{folder}/wh/d.db/t"
    table = Table.create(path, {**SPEC, "options": {**SPEC["options"], "write-only": "true", **options}})
    table.upsert(rows([(1, 1, "a"), (2, 1, "b")]))
    table.compact(full=True)
    for i, snapshot in enumerate(table.metadata.snapshot_ids()):
        table.create_tag(f"v{i}", snapshot=snapshot)
    table.upsert(rows([(1, 1, "c"), (1, 2, "d")]))
    table.compact()
    newest = table.metadata.latest_snapshot_id()
    Table.open(path).expire(retain_min=1, retain_max=1, retain_time="1 ms")
    assert Table.open(path).metadata.snapshot_ids() == [newest]
    return path


def told(path: str, after: int | None) -> list[dict[str, Any]]:
    """Read all changes there are after a snapshot; None: all, those of expired snapshots where they outlive them."""
    table = Table.open(path)
    first = earliest_commit_id(table.metadata)
    assert first is not None
    changes: pa.Table = table.scan(incremental=(first - 1 if after is None else after, None), kinds=True).to_arrow()
    return list(changes.sort_by("k").to_pylist())


def keep_up(path: str, after: int | None = None, **named: Any) -> None:
    """Do what keeps a table up, each in a process of its own; nothing that a state needs may go."""
    before = told(path, after), content(Table.open(path)), content(Table.open(path), **named)
    assert Table.open(path).orphans(older_than="0 s").files == ()
    Table.open(path).build_lookup_store()
    Table.open(path).expire()
    assert Table.open(path).orphans(older_than="0 s", remove=True).files == ()
    assert Table.open(path).verify().findings == ()
    assert (told(path, after), content(Table.open(path)), content(Table.open(path), **named)) == before


@pytest.mark.parametrize("options", CASES, ids=lambda o: ",".join(o.values()))
def test_upkeep_goes_on_beside_the_tag(tmp_path: Path, options: Mapping[str, str]) -> None:
    path = tagged(tmp_path, options)
    keep_up(path, tag="v1")
    Table.open(path).delete_tag("v0")
    keep_up(path, tag="v1")
    make_branch(Path(path), "b", "v1")
    keep_up(path, tag="v1")


@pytest.mark.parametrize("options", CASES, ids=lambda o: ",".join(o.values()))
@pytest.mark.parametrize("by_java", [False, True])
def test_upkeep_goes_on_when_the_tag_came_back(tmp_path: Path, options: Mapping[str, str], by_java: bool) -> None:
    path = tagged(tmp_path, options)
    Table.open(path).rollback(tag="v1")
    back = Table.open(path).metadata.latest_snapshot_id() if by_java else None
    if by_java:
        # Java writes the snapshot of the tag as it was, with the names of the changelog that is gone.
        tag = json.loads((Path(path) / "tag/tag-v1").read_text(encoding="utf-8"))
        (Path(path) / f"snapshot/snapshot-{tag['id']}").write_text(json.dumps(tag), encoding="utf-8")
    keep_up(path, back, tag="v1")
    Table.open(path).delete_tag("v1")
    Table.open(path).upsert(rows([(1, 3, "e")]))
    Table.open(path).compact()
    keep_up(path, back)


def test_a_changelog_that_a_later_snapshot_lost_is_a_fault(tmp_path: Path) -> None:
    path = f"{tmp_path}/wh/d.db/t"
    table = Table.create(path, {**SPEC, "options": {**SPEC["options"], "changelog-producer": "input"}})
    for value in "ab":
        table.upsert(rows([(1, 1, value)]))
    lost = table.metadata.load_snapshot(2).changelog_manifest_list
    (Path(path) / "manifest" / str(lost)).unlink()
    with pytest.raises(NotFoundError, match="snapshot-2 refers to a file that does not exist"):
        Table.open(path).orphans()
