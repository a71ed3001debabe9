"""Expiry, tags and rollback on real tables: what readers see stays, what nobody can reach goes, a crash does no harm."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnavailableError
from lakeidx.format.consumer import encode_consumer
from lakeidx.format.paths import TablePaths
from lakeidx.format.tag import now_local_ns
from lakeidx.storage import open_store
from lakeidx.table.expiration.expire import ExpireReport, expire_table
from lakeidx.table.expiration.files_to_delete import Role
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.read import read_tags
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.table.history import changelog_ids
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.testing.fault_store import FaultStore
from tests.kit.metered_store import MeteredStore
from tests.kit.reachable import files_on_disk, reachable, reopened
from tests.kit.small_tables import content, filled_table, make_table, upsert

FAR_AHEAD_MS = 1 << 60
NEWEST_ONLY = Retention(num_min=1, num_max=1, limit=1000)


def expire(table: Table, **more: Any) -> ExpireReport:
    table = reopened(table)
    more = {"now_ms": FAR_AHEAD_MS, "retention": NEWEST_ONLY} | more
    return expire_table(table.metadata, table.schema, **more)  # type: ignore[arg-type]


def a_history(folder: Path, *, batches: int = 6, options: dict[str, str] | None = None) -> Table:
    """Upserts over two partitions, every third batch replacing one of them."""
    table = make_table(folder, options=options)
    for i in range(batches):
        if i % 3 == 2:
            upsert(table, [(1, k, f"new{i}-{k}") for k in range(4)], overwrite="partitions")
        else:
            upsert(table, [(k % 2, k + i, f"v{i}-{k}") for k in range(8)])
    return table


@pytest.mark.slow
def test_no_bucket_s_directory_is_listed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for value in "abc":
        upsert(table, [(p, k, value) for p in range(25) for k in range(2)], overwrite="partitions")
    counted = Table.open(table.uri)
    store = MeteredStore(counted.metadata.store)
    counted.metadata.store = store
    report = expire_table(counted.metadata, counted.schema, now_ms=FAR_AHEAD_MS, retention=NEWEST_ONLY)
    assert report.count_by_role["data"] == report.count_by_role["index"] == 50
    counts = {v: c.requests for v, c in store.counts.items()}
    assert counts["list"] <= 10, counts
    assert counts.get("info", 0) + counts.get("size", 0) <= 2, counts
    assert files_on_disk(table) == reachable(table)


def test_of_snapshots_that_stay_only_the_changes_are_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for key in range(8):
        upsert(table, [(1, key, "x")])
    newest = reopened(table).snapshot
    assert newest is not None
    store = FaultStore(table.store)
    for name in (newest.base_manifest_list, newest.index_manifest):
        store.fail("get", str(name), when="before", error=UnavailableError("read"))
    read = Table(store, table.paths)
    report = expire_table(
        read.metadata, table.schema, now_ms=FAR_AHEAD_MS, retention=Retention(num_min=4, num_max=4, limit=1000)
    )
    assert report.snapshots == (1, 2, 3, 4)
    assert files_on_disk(table) == reachable(table)


def test_the_last_tag_of_a_snapshot_takes_its_files_along(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    for value in "bc":
        upsert(table, [(1, 1, value)], overwrite="table")
    for name, snapshot_id in (("one", 1), ("two", 1), ("late", 2)):
        create_tag(table.metadata, name, snapshot_id=snapshot_id)
    expire(table)
    table = reopened(table)
    assert [f.role for f in delete_tag(table.metadata, table.schema, "two").files] == [Role.TAG]
    dry, done = (delete_tag(table.metadata, table.schema, "one", dry_run=dry) for dry in (True, False))
    assert [f.path for f in dry.files] == [f.path for f in done.files]
    assert {f.role for f in done.files} >= {Role.TAG, Role.DATA, Role.MANIFEST}
    assert files_on_disk(table) == reachable(table)
    assert content(reopened(table), tag="late") == {(1, 1): "b"}
    delete_tag(table.metadata, table.schema, "late")
    assert files_on_disk(table) == reachable(table)
    with pytest.raises(NotFoundError, match="tag 'late' does not exist; tags: none"):
        delete_tag(table.metadata, table.schema, "late")


def test_two_old_tags_of_expired_snapshots_are_listed_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled_table(tmp_path, [(1, k, "first") for k in range(3)], [(2, k, "second") for k in range(3)])
    create_tag(table.metadata, "a", snapshot_id=1, retained_ms=60_000)
    create_tag(table.metadata, "b", snapshot_id=2, retained_ms=60_000)
    upsert(table, [(3, k, "third") for k in range(3)], overwrite="table")
    expire(table)
    monkeypatch.setattr("lakeidx.table.expiration.expire.now_local_ns", lambda: now_local_ns() + 61_000_000_000)
    dry = expire(table, dry_run=True)
    report = expire(table)
    assert report.tags == ("a", "b")
    # Both use the data file of the first snapshot: it goes with the second of them, in the dry run, too.
    assert [f.path for f in dry.files] == [f.path for f in report.files]
    assert report.count_by_role["data"] == 2
    assert files_on_disk(table) == reachable(table)


@pytest.mark.slow
def test_consumers_hold_snapshots_back(tmp_path: Path) -> None:
    table = a_history(tmp_path, options={"consumer.expiration-time": "1 d"})
    for name, progress in (("slow", 3), ("fast", 5)):
        table.store.put(table.paths.consumer_path(name), encode_consumer(progress))
    now = int(time.time() * 1000)
    report = expire(table, now_ms=now, retention=Retention(num_min=1, num_max=1, limit=1000))
    assert (report.earliest, report.consumers) == (3, ())
    yesterday = time.time() - 100_000
    os.utime(table.paths.consumer_path("slow"), (yesterday, yesterday))
    report = expire(table, now_ms=now)
    assert (report.earliest, report.consumers) == (5, ("slow",))
    assert not table.store.exists(table.paths.consumer_path("slow"))
    table.store.put(table.paths.consumer_path("broken"), b"{")
    with pytest.raises(CorruptFileError, match="consumer-broken"):
        expire(table)


def test_a_tag_that_cannot_be_read_stops_everything(tmp_path: Path) -> None:
    table = a_history(tmp_path)
    table.store.put(table.paths.tag_path("bad"), b"not json")
    before = files_on_disk(table)
    with pytest.raises(CorruptFileError, match="tag-bad"):
        expire(table)
    assert files_on_disk(table) == before


def test_empty_directories_go_when_asked_for(tmp_path: Path) -> None:
    for clean in (False, True):
        table = make_table(tmp_path / str(clean), options={"snapshot.clean-empty-directories": str(clean).lower()})
        upsert(table, [(1, 1, "a"), (2, 2, "b")])
        upsert(table, [(2, 3, "c")], overwrite="table")
        expire(table)
        assert (Path(table.uri) / "p=1").exists() != clean
        assert (Path(table.uri) / "p=2").exists()


def test_a_tag_names_an_existing_snapshot_once(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    with pytest.raises(NotFoundError, match="no snapshot to tag"):
        create_tag(table.metadata, "t")
    upsert(table, [(1, 1, "a")])
    upsert(table, [(1, 2, "b")])
    assert create_tag(table.metadata, "newest").snapshot.id == 2
    assert create_tag(table.metadata, "timed", snapshot_id=1, retained_ms=1500).time_retained_ns == 1_500_000_000
    assert {n: t.snapshot.id for n, t in read_tags(table.metadata).items()} == {"newest": 2, "timed": 1}
    with pytest.raises(InvalidInputError, match="tag 'newest' exists already"):
        create_tag(table.metadata, "newest")
    with pytest.raises(InvalidInputError, match="must not be a number"):
        create_tag(table.metadata, "17")
    with pytest.raises(NotFoundError, match="snapshot 9 does not exist"):
        create_tag(table.metadata, "t", snapshot_id=9)
    for name in ("", "a/b"):
        with pytest.raises(InvalidInputError):
            create_tag(table.metadata, name)


def test_a_rollback_and_its_plan_say_the_bytes_that_go(tmp_path: Path) -> None:
    table = a_history(tmp_path)
    before = {p: p.stat().st_size for p in tmp_path.rglob("*") if p.is_file() and p.name != "LATEST"}
    plan = table.rollback(2, dry_run=True)
    done = table.rollback(2)
    gone = [size for p, size in before.items() if not p.exists() and "_lakeidx" not in p.parts]
    assert (plan.files, plan.bytes) == (done.files, done.bytes) == (len(gone), sum(gone))
    assert 0 < plan.seconds < 60
    assert 10 << 20 < plan.memory <= done.memory


def test_going_back_to_a_snapshot(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    states = {}
    for i in range(5):
        upsert(table, [(1, k, f"{i}-{k}") for k in range(i + 2)], overwrite="table" if i == 3 else None)
        states[i + 1] = content(table)
    create_tag(table.metadata, "two", snapshot_id=2)
    create_tag(table.metadata, "four", snapshot_id=4)
    dry = roll_back(table.metadata, table.schema, snapshot_id=3, dry_run=True)
    assert content(reopened(table)) == states[5]
    report = roll_back(table.metadata, table.schema, snapshot_id=3)
    assert [f.path for f in dry.files] == [f.path for f in report.files]
    assert (report.snapshot_id, report.snapshots, report.tags, report.restored) == (3, (5, 4), ("four",), False)
    assert content(reopened(table)) == states[3]
    assert content(reopened(table), tag="two") == states[2]
    assert files_on_disk(table) == reachable(table)
    fresh = reopened(table)
    upsert(fresh, [(1, 99, "on")])
    assert content(fresh) == states[3] | {(1, 99): "on"}
    assert fresh.metadata.latest_snapshot_id() == 4
    with pytest.raises(NotFoundError, match="snapshot 9 does not exist"):
        roll_back(table.metadata, table.schema, snapshot_id=9)
    for bad in ({}, {"snapshot_id": 1, "tag": "two"}):
        with pytest.raises(InvalidInputError, match="either a snapshot or a tag"):
            roll_back(table.metadata, table.schema, **bad)  # type: ignore[arg-type]


@pytest.mark.slow
def test_going_back_to_a_tag_whose_snapshot_has_expired(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for i in range(6):
        upsert(table, [(1, k, f"{i}-{k}") for k in range(3)], overwrite="table" if i % 2 else None)
    create_tag(table.metadata, "old", snapshot_id=2)
    wanted = content(table, tag="old")
    expire(table, retention=Retention(num_min=2, num_max=2, limit=1000))
    table = reopened(table)
    report = roll_back(table.metadata, table.schema, tag="old")
    assert (report.restored, report.snapshots) == (True, (6, 5))
    table = reopened(table)
    assert table.metadata.snapshot_ids() == [2]
    assert content(table) == content(table, tag="old") == wanted
    assert files_on_disk(table) == reachable(table)
    upsert(table, [(1, 50, "x")])
    assert content(reopened(table)) == wanted | {(1, 50): "x"}


# ---- beside a stream that begins -------------------------------------------------------------------------------------


def test_an_expiry_of_changelogs_and_a_stream_that_begin_at_once(tmp_path: Path) -> None:
    """Of changelogs that outlive their snapshots, too, what goes is said first, and consumers are looked at after that."""
    options = {"bucket": "1", "changelog-producer": "input", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1",
               "changelog.num-retained.min": "9", "changelog.num-retained.max": "9"}  # fmt: skip
    table = Table.create(
        f"{tmp_path}/d.db/t", {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": options}
    )
    for k in range(5):
        table.upsert(pa.table({"k": [k]}))
    expire_table(table.metadata, table.schema, now_ms=1 << 60)
    assert changelog_ids(table.metadata) == [1, 2, 3, 4]
    table.alter(set={"changelog.num-retained.min": "2", "changelog.num-retained.max": "2"})
    store = FaultStore(open_store(table.uri))
    expiring = TableMetadata(store, TablePaths.of(table.uri, table.schema))
    streams: list[Position] = []

    def begin(verb: str, path: str) -> None:
        streams.append(StreamConsumer(table.metadata).begin(Start(StartMode.FROM_SNAPSHOT, snapshot=0)))

    store.fail("put", "changelog/EARLIEST", when="before", act=begin)
    assert expire_table(expiring, table.schema, now_ms=1 << 60).changelogs == ()
    assert Path(table.paths.changelog_earliest).read_text() == "1"
    for lease in (Path(table.uri) / "consumer").glob("*"):
        lease.unlink()
    store.heal()
    store.fail("put", "changelog/EARLIEST", when="after", act=begin)
    assert expire_table(expiring, table.schema, now_ms=1 << 60).changelogs == (1, 2, 3)
    assert [p.snapshot for p in streams] == [0, 3]
