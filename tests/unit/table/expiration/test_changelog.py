"""Long-lived changelogs: kept for those who read changes, gone when their time is over, nothing else harmed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, UnavailableError
from lakeidx.format.consumer import encode_consumer
from lakeidx.format.manifest import FileKind
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.options.table_options import TableOptions
from lakeidx.table.expiration.changelog import changelog_retention_of, choose_changelogs, read_changelogs
from lakeidx.table.expiration.expire import ExpireReport, expire_table
from lakeidx.table.expiration.plan import ExpireRange, Retention
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.reachable import files_on_disk, reachable, reopened
from tests.kit.small_tables import content, make_table, upsert

FAR_AHEAD_MS = 1 << 60
OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "changelog.num-retained.min": "4",
    "changelog.num-retained.max": "4",
    "num-sorted-run.compaction-trigger": "2",
}


def expire(table: Table, **more: Any) -> ExpireReport:
    table = reopened(table)
    return expire_table(table.metadata, table.schema, **({"now_ms": FAR_AHEAD_MS} | more))


def step(table: Table, number: int) -> None:
    upsert(table, [(number % 2, k + number, f"v{number}-{k}") for k in range(8)])
    if number % 3 == 2:
        run_compaction(reopened(table).metadata, LocalRunner(1), full=True)


def files_of_changelogs(table: Table) -> tuple[set[str], set[str]]:
    """(what a reader of the changes needs, what waits for the changelog that deleted it), by reading every changelog."""
    table = reopened(table)
    m, root = table.metadata, Path(table.uri)
    producer = table.schema.table_options.changelog_producer
    needed, waiting = set(), set()  # type: ignore[var-annotated]
    oldest = next(iter(m.snapshots()))
    changelogs = read_changelogs(m)
    for i, s in {**changelogs, oldest.id: oldest}.items():
        if i in changelogs:
            needed.add(f"changelog/changelog-{i}")
        # Without a producer the lists of the state stay as well.
        lists = [s.changelog_manifest_list] if producer != "none" else [s.base_manifest_list, s.delta_manifest_list]
        for name in lists:
            if name is None:
                continue
            needed.add(f"manifest/{name}")
            for meta in m.load_manifest_list(name):
                needed.add(f"manifest/{meta.file_name}")
                for entry in m.load_manifest(meta.file_name) if name != s.base_manifest_list else ():
                    if not entry.file.file_source:
                        values = decode_partition_dict(entry.partition, table.schema)
                        directory = Path(m.paths.bucket_dir(values, entry.bucket)).relative_to(root)
                        place = needed if entry.kind is FileKind.ADD else waiting
                        place.add(str(directory / entry.file.file_name))
    return needed, waiting


def check_files(table: Table) -> None:
    needed, waiting = files_of_changelogs(table)
    on_disk, wanted = files_on_disk(table), reachable(table) | needed
    assert wanted <= on_disk
    assert on_disk <= wanted | waiting


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["none", "input"])
def test_what_is_read_stays_and_the_rest_goes(producer: str, tmp_path: Path) -> None:
    table = make_table(tmp_path, options={**OPTIONS, "changelog-producer": producer})
    gone: list[int] = []
    for number in range(8):
        step(table, number)
        before = content(reopened(table))
        dry = expire(table, dry_run=True)
        report = expire(table)
        assert [f.path for f in dry.files] == [f.path for f in report.files]
        assert report.notes == ()
        gone += report.changelogs
        table = reopened(table)
        assert content(table) == before
        check_files(table)
    # What the last run has turned into changelogs is looked at by the next one.
    gone += expire(table).changelogs
    newest = table.metadata.latest_snapshot_id() or 0
    left = list(read_changelogs(table.metadata))
    assert gone == list(range(1, left[0]))
    assert left == list(range(newest - 3, newest))
    assert (Path(table.uri) / "changelog/EARLIEST").read_text() == str(left[0])
    check_files(table)


@pytest.mark.slow
def test_a_tag_keeps_its_files(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=OPTIONS)
    for number in range(3):
        step(table, number)
    create_tag(reopened(table).metadata, "kept", snapshot_id=2)
    tagged = content(reopened(table), tag="kept")
    for number in range(3, 9):
        step(table, number)
        expire(table)
        assert content(reopened(table), tag="kept") == tagged
    assert min(read_changelogs(table.metadata)) > 3


@pytest.mark.slow
def test_a_run_cut_off_does_no_harm_and_the_next_one_finishes(tmp_path: Path) -> None:
    r = random.Random(3)
    first = make_table(tmp_path / "first", options={**OPTIONS, "snapshot.num-retained.max": "2"})
    for number in range(8):
        step(first, number)
    expire(first)
    before = content(reopened(first))
    total = len(expire(first, dry_run=True).files)
    assert total > 5
    for attempt in range(2):
        table = Table.open(shutil.copytree(first.uri, tmp_path / str(attempt) / "wh/d.db/t").as_posix())
        cut = reopened(table)
        cut.metadata.store = store = FaultStore(cut.metadata.store)
        store.fail("delete", skip=r.randrange(total), times=total)
        with pytest.raises(UnavailableError):
            expire_table(cut.metadata, cut.schema, now_ms=FAR_AHEAD_MS)
        assert content(reopened(table)) == before
        expire(table)
        assert content(reopened(table)) == before
        check_files(table)


@pytest.mark.slow
def test_a_consumer_holds_changelogs_back(tmp_path: Path) -> None:
    options = {**OPTIONS, "consumer.changelog-only": "true"}
    table = make_table(tmp_path, options=options)
    for number in range(10):
        step(table, number)
    table.store.put(table.paths.consumer_path("reader"), encode_consumer(3))
    expire(table)
    expire(table)
    assert min(read_changelogs(table.metadata)) == 3


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, (1, 6)),  # all but the newest
        ({"num_min": 7}, (1, 4)),
        ({"time_ms": 1000 - 35}, (1, 4)),
        ({"num_max": 6, "time_ms": 1000}, (1, 5)),
        ({"limit": 2}, (1, 3)),
    ],
)
def test_changelogs_expire_by_number_and_age(changes: dict[str, int], want: tuple[int, int]) -> None:
    """Changelogs 1 to 6 of the times 10, 20, ..., snapshots up to 10, now 1000."""
    times = {i: 10 * i for i in range(1, 7)}
    retention = Retention(**({"num_min": 1, "time_ms": 0} | changes))  # type: ignore[arg-type]
    assert choose_changelogs(times, 10, retention, now_ms=1000) == ExpireRange(*want)


def test_consumers_and_holes() -> None:
    times = {1: 0, 2: 0, 5: 0, 6: 0}
    none = Retention(num_min=1, time_ms=0)
    assert choose_changelogs(times, 10, none, now_ms=1, consumers=[3]) == ExpireRange(1, 2)
    assert choose_changelogs({4: 0}, 10, none, now_ms=1).is_empty


def test_options_that_contradict() -> None:
    options = {"changelog.num-retained.min": "5", "changelog.num-retained.max": "3"}
    with pytest.raises(InvalidInputError, match=r"changelog\.num-retained\.min"):
        changelog_retention_of(TableOptions(options))
