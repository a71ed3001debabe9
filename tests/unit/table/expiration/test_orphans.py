"""Orphans: what nothing reaches goes, what anything reaches stays, and doubt keeps everything."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnavailableError
from lakeidx.storage.base import FileInfo
from lakeidx.table.expiration import orphans
from lakeidx.table.expiration.orphans import DEFAULT_AGE_MS, Protected, find_orphans, remove_orphans
from lakeidx.table.expiration.tags import create_tag
from lakeidx.testing.fault_store import FaultStore
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.small_tables import content, keep_newest, make_table, upsert

UUID = "01234567-89ab-cdef-0123-456789abcdef"
LATER_MS = 4_000_000_000_000


def three_batches(folder: Path) -> Table:
    table = make_table(folder)
    for i in range(3):
        upsert(table, [(p, k, str(i)) for p in (1, 2) for k in range(3)])
    return table


def found(table: Table, **arguments: int) -> set[str]:
    report = find_orphans(table.metadata, **{"now_ms": LATER_MS, "older_than_ms": 0, **arguments})  # type: ignore[arg-type]
    return {str(Path(f.path).relative_to(table.uri)) for f in report.files}


LOST = [
    f"manifest/manifest-{UUID}-0",
    f"manifest/manifest-list-{UUID}-1",
    f"manifest/index-manifest-{UUID}-0",
    f"index/index-{UUID}-0",
    f"statistics/stat-{UUID}-0",
    f"p=1/bucket-0/data-{UUID}-0.parquet",
    f"p=1/bucket-0/data-{UUID}-0.parquet.index",
    f"p=1/bucket-0/changelog-{UUID}-0.parquet",
    f"p=77/bucket-3/data-{UUID}-0.orc",
    f"snapshot/.snapshot-9.{UUID}.tmp",
    f"branch/branch-x/manifest/manifest-{UUID}-0",
    f"p=1/bucket-0/.data-{UUID}-0.parquet.{UUID}.tmp",
]
NOT_OURS = [
    "README.txt",
    "p=1/notes.parquet",
    "schema/schema-9",
    "consumer/consumer-x",
    "manifest/mine",
    "p=1/bucket-0/_SUCCESS",
]


def test_every_kind_of_lost_file_is_found_and_nothing_else_touched(tmp_path: Path) -> None:
    table = three_batches(tmp_path)
    before = files_on_disk(table)
    for name in (*LOST, *NOT_OURS):
        path = Path(table.uri) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 7)
    assert found(table) == set(LOST)
    report = find_orphans(table.metadata, now_ms=LATER_MS, older_than_ms=0)
    assert report.bytes == 7 * len(LOST)
    assert not report.removed
    assert remove_orphans(table.metadata, report).removed
    assert files_on_disk(table) == before | {n for n in NOT_OURS if not n.startswith(("schema/", "consumer/"))}
    assert all((Path(table.uri) / n).exists() for n in NOT_OURS)
    assert found(table) == set()


def test_young_files_are_left_alone(tmp_path: Path) -> None:
    table = three_batches(tmp_path)
    (Path(table.uri) / LOST[0]).write_bytes(b"")
    now = int(time.time() * 1000)
    assert found(table, now_ms=now, older_than_ms=DEFAULT_AGE_MS) == set()
    assert found(table, now_ms=now + DEFAULT_AGE_MS + 60_000, older_than_ms=DEFAULT_AGE_MS) == {LOST[0]}
    with pytest.raises(InvalidInputError, match="age"):
        found(table, older_than_ms=-1)


def test_what_cannot_be_read_stops_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = three_batches(tmp_path)
    create_tag(table.metadata, "kept", snapshot_id=1)
    for name in ("snapshot/snapshot-2", "tag/tag-kept"):
        victim = Path(table.uri) / name
        whole = victim.read_bytes()
        victim.write_bytes(whole[:-20])
        with pytest.raises(CorruptFileError, match=victim.name):
            found(Table.open(table.uri))
        victim.write_bytes(whole)
    store = FaultStore(table.store)
    store.fail("get", "/manifest/")
    with pytest.raises(UnavailableError):
        found(Table(store, table.paths))
    outside = FileInfo(f"{tmp_path}/other/manifest/manifest-{UUID}-0", f"manifest-{UUID}-0", 7, 0, is_dir=False)
    with monkeypatch.context() as patched:
        patched.setattr(orphans, "parallel_walk", lambda store, root: iter([outside]))
        with pytest.raises(CorruptFileError, match="a path outside the table"):
            found(table)
    # A live snapshot without one of its manifests.
    gone = table.metadata.load_snapshot(2).delta_manifest_list
    (Path(table.uri) / "manifest" / gone).unlink()
    with pytest.raises(NotFoundError, match=gone):
        found(Table.open(table.uri))


def test_an_expiry_meanwhile_does_no_harm(tmp_path: Path) -> None:
    table = three_batches(tmp_path)
    (Path(table.uri) / LOST[0]).write_bytes(b"")
    store = FaultStore(table.store)

    def expire(verb: str, path: str) -> None:
        keep_newest(table)

    # Every snapshot has been listed; the first manifest list is about to be read.
    fault = store.fail("get", "/manifest/manifest-list", act=expire)
    racing = Table(store, table.paths)
    report = find_orphans(racing.metadata, now_ms=LATER_MS, older_than_ms=0)
    assert fault.hits == 1
    assert LOST[0] in {str(Path(f.path).relative_to(table.uri)) for f in report.files}
    remove_orphans(racing.metadata, report)
    assert set(content(Table.open(table.uri)).values()) == {"2"}
    assert reachable(table) <= files_on_disk(table)


def test_a_commit_between_listing_and_reading_is_seen(tmp_path: Path) -> None:
    """The listing has the new files, the snapshot comes a moment later: they must count as used."""
    table = three_batches(tmp_path)
    store = FaultStore(table.store)
    store.fail("list", "/snapshot", act=lambda *_: upsert(table, [(1, 50, "new")]) and None)
    report = find_orphans(Table(store, table.paths).metadata, now_ms=LATER_MS, older_than_ms=0)
    assert report.files == ()


def test_what_a_batch_may_just_have_written_is_too_new() -> None:
    def file(mtime_ms: int, name: str = LOST[5].rpartition("/")[2]) -> FileInfo:
        return FileInfo(f"/{name}", name, 1, mtime_ms, False)

    committing = Protected(metadata_since_ms=5)
    assert [committing.is_too_new(file(t)) for t in (4, 5, 6)] == [False] * 3
    manifest = LOST[0].rpartition("/")[2]
    assert [committing.is_too_new(file(t, manifest)) for t in (4, 5, 6)] == [False, True, True]
    assert [Protected(since_ms=5).is_too_new(file(t)) for t in (4, 5, 6)] == [False, True, True]
    assert not Protected().is_too_new(file(9))
