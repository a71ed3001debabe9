"""Which snapshots expire, at the bounds of each rule; what plans hold besides what histories show."""

from __future__ import annotations

import dataclasses

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.options.table_options import TableOptions
from lakeidx.table.expiration.files_to_delete import FileToDelete, Role, SnapshotMetadata, children_first
from lakeidx.table.expiration.plan import (
    ExpireInputs,
    ExpireRange,
    Retention,
    choose_range,
    plan_expire,
    retention_of,
    tags_around,
    tags_before,
)  # fmt: skip
from lakeidx.table.expiration.rollback_plan import RollbackInputs, plan_delete_tag, plan_rollback, tag_neighbours
from tests.kit.compaction_files import a_file

HOURLY = {i: i * 100 for i in range(1, 21)}
ALL = Retention(num_min=1, num_max=1000, time_ms=0, limit=1000)


@pytest.mark.parametrize(
    ("changes", "now", "consumers", "end"),
    [
        ({}, 10_000, [], 20),
        ({"num_min": 5}, 10_000, [], 16),
        ({"num_min": 20}, 10_000, [], 1),
        ({"num_min": 30}, 10_000, [], 1),
        ({"limit": 3}, 10_000, [], 4),
        ({}, 10_000, [7, 12], 7),
        ({}, 10_000, [1], 1),
        ({}, 10_000, [50], 20),
        ({"consumers_keep_changelog_only": True}, 10_000, [7], 20),
        # Snapshot 4 goes once snapshot 5 (time 500) is older than 250 ms: at 751, not at 750.
        ({"time_ms": 250}, 750, [], 4),
        ({"time_ms": 250}, 751, [], 5),
        # Beyond the newest ten, age does not count; the rest stays while it is young.
        ({"time_ms": 10**6, "num_max": 10}, 2_000, [], 11),
        ({"time_ms": 10**6, "num_max": 10, "limit": 4}, 2_000, [], 5),
        ({"time_ms": 10**6, "num_max": 10}, 2_000, [6], 6),
    ],
)
def test_the_range_that_expires(changes: dict[str, int], now: int, consumers: list[int], end: int) -> None:
    retention = dataclasses.replace(ALL, **changes)  # type: ignore[arg-type]
    assert choose_range(HOURLY, retention, now_ms=now, consumers=consumers) == ExpireRange(1, end)


def test_gaps_of_an_earlier_run_are_passed_over() -> None:
    times = {i: t for i, t in HOURLY.items() if i not in (1, 2, 5, 6)}
    assert choose_range(times, dataclasses.replace(ALL, limit=3), now_ms=10_000) == ExpireRange(3, 4)
    assert choose_range({}, ALL, now_ms=0) is None


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_numbers_that_contradict(least: int, most: int) -> None:
    with pytest.raises(InvalidInputError, match=f"at least {least} and at most {most}"):
        choose_range(HOURLY, Retention(num_min=least, num_max=most), now_ms=0)


def test_retention_by_option_names() -> None:
    assert retention_of(TableOptions({})) == Retention(num_min=10, num_max=2**31 - 1, time_ms=3_600_000, limit=50)
    options = {
        "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4", "snapshot.time-retained": "1 min",
        "snapshot.expire.limit": "7", "changelog-producer": "input", "changelog.num-retained.max": "5",
        "consumer.changelog-only": "true",
    }  # fmt: skip
    assert retention_of(TableOptions(options)) == Retention(
        num_min=2,
        num_max=4,
        time_ms=60_000,
        limit=7,
        changelogs_live_longer=True,
        has_changelog_producer=True,
        consumers_keep_changelog_only=True,
    )
    del options["changelog.num-retained.max"]
    assert not retention_of(TableOptions(options)).consumers_keep_changelog_only
    with pytest.raises(
        InvalidInputError, match=r"'snapshot\.num-retained\.min' = 9 is larger than 'snapshot\.num-retained\.max' = 3"
    ):
        retention_of(TableOptions({"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "3"}))


def snapshot(snapshot_id: int, *, changelog: bool = False) -> SnapshotMetadata:
    s = Snapshot(
        id=snapshot_id, schema_id=0, base_manifest_list=f"manifest-list-b{snapshot_id}", base_manifest_list_size=11,
        delta_manifest_list=f"manifest-list-d{snapshot_id}", commit_user="u", commit_identifier=snapshot_id,
        changelog_manifest_list=f"manifest-list-c{snapshot_id}" if changelog else None,
        commit_kind=CommitKind.APPEND, time_millis=0, total_record_count=0, delta_record_count=0,
    )  # fmt: skip
    return SnapshotMetadata(snapshot=s, base=(), delta=())


def entry(kind: FileKind, file: DataFileMeta, bucket: int = 0) -> ManifestEntry:
    return ManifestEntry(kind=kind, partition=EMPTY_ROW, bucket=bucket, total_buckets=-1, file=file)


def inputs_of(
    deltas: dict[int, list[ManifestEntry] | None], changelogs: dict[int, list[ManifestEntry]] | None = None
) -> ExpireInputs:
    last = max(deltas)
    return ExpireInputs(
        range=ExpireRange(1, last),
        expiring=[snapshot(i, changelog=i in (changelogs or {})) for i in range(1, last)],
        end=snapshot(last),
        deltas=deltas,
        changelogs=changelogs or {},
    )


FLUSHED = dataclasses.replace(a_file("flushed", size=10), file_source=0)
COMPACTED = dataclasses.replace(a_file("compacted", 5, size=20), file_source=1, extra_files=("compacted.index",))
ELSEWHERE = dataclasses.replace(a_file("away", size=40), external_path="s3://other/away", file_source=1)
GONE = [entry(FileKind.DELETE, f, bucket) for bucket, f in enumerate((FLUSHED, COMPACTED, ELSEWHERE))]


def test_a_plan_says_bytes_places_and_buckets() -> None:
    plan = plan_expire(inputs_of({2: GONE}), retention=Retention())
    data = plan.phases[0]
    assert [(f.role, f.name, f.size, f.bucket, f.external_path) for f in data] == [
        (Role.DATA, "flushed", 10, 0, None),
        (Role.EXTRA, "compacted.index", None, 1, None),
        (Role.DATA, "compacted", 20, 1, None),
        (Role.DATA, "away", 40, 2, "s3://other/away"),
    ]
    assert plan.touched_buckets == [(EMPTY_ROW, 0), (EMPTY_ROW, 1), (EMPTY_ROW, 2)]
    assert [f.name for f in plan.files[4:]] == ["manifest-list-b1", "manifest-list-d1", "1"]
    assert (plan.snapshots_gone, plan.earliest_hint, plan.keep_as_changelog, plan.notes) == ((1,), 2, (), ())


def test_an_upgraded_file_stays() -> None:
    upgraded = dataclasses.replace(FLUSHED, level=5)
    for order in (
        [entry(FileKind.DELETE, FLUSHED), entry(FileKind.ADD, upgraded)],
        [entry(FileKind.ADD, upgraded), entry(FileKind.DELETE, FLUSHED)],
    ):
        assert plan_expire(inputs_of({2: order}), retention=Retention()).phases[0] == ()
    # So does one that a later snapshot has again, as going back to an older state leaves it, and one of a snapshot that stays.
    back = [entry(FileKind.ADD, FLUSHED), entry(FileKind.ADD, COMPACTED, 1)]
    again = plan_expire(inputs_of({2: GONE, 3: back}), retention=Retention())
    assert [f.name for f in again.phases[0]] == ["away"]
    later = dataclasses.replace(inputs_of({2: GONE}), later=back)
    assert [f.name for f in plan_expire(later, retention=Retention()).phases[0]] == ["away"]


def test_statistics_go_unless_a_state_that_stays_names_them() -> None:
    inputs = inputs_of({2: []})
    old, end = (with_statistics(m, "stats") for m in (inputs.expiring[0], inputs.end))
    for kept, gone in ((end, []), (inputs.end, ["stats"])):
        plan = plan_expire(dataclasses.replace(inputs, expiring=[old], end=kept), retention=Retention())
        assert [f.name for f in plan.files if f.role is Role.STATISTICS] == gone


def with_statistics(m: SnapshotMetadata, name: str) -> SnapshotMetadata:
    return dataclasses.replace(m, snapshot=dataclasses.replace(m.snapshot, statistics=name))


def test_the_tags_that_an_expiry_has_to_know() -> None:
    gone = ExpireRange(4, 8)
    assert tags_around([1, 3, 5, 8], gone) == {3, 5}
    assert tags_around([3, 4, 7], gone) == {4, 7}
    assert tags_before([1, 3, 5, 7, 8], gone) == {3, 5, 7}


def test_a_tag_may_share_files_with_its_neighbours() -> None:
    assert tag_neighbours(5, [1, 3, 5, 7, 9], 8) == (3, 7)
    assert tag_neighbours(5, [1, 5, 9], 8) == (1, 8)
    assert tag_neighbours(5, [5], 4) == (None, None)


def test_changelogs_that_live_longer_keep_their_files() -> None:
    changelogs = {1: [entry(FileKind.ADD, a_file("changelog-1"))]}
    plain = plan_expire(inputs_of({2: GONE}, changelogs), retention=Retention(has_changelog_producer=True))
    assert [f.name for f in plain.phases[1]] == ["changelog-1"]
    longer = Retention(changelogs_live_longer=True, has_changelog_producer=True)
    kept = plan_expire(inputs_of({2: GONE}, changelogs), retention=longer)
    assert kept.phases[1] == ()
    assert [s.id for s in kept.keep_as_changelog] == [1]
    assert "manifest-list-c1" not in {f.name for f in kept.files}
    assert "manifest-list-b1" in {f.name for f in kept.files}
    # Without a producer the flushed files are the changelog, and their manifests stay, too.
    flushed = plan_expire(inputs_of({2: GONE}), retention=Retention(changelogs_live_longer=True))
    assert [f.name for f in flushed.phases[0]] == ["compacted.index", "compacted", "away"]
    assert {f.role for f in flushed.files} == {Role.DATA, Role.EXTRA, Role.SNAPSHOT}


def test_what_cannot_be_read_is_left_out_and_said() -> None:
    plan = plan_expire(inputs_of({2: None, 3: GONE}), retention=Retention())
    assert len(plan.phases[0]) == 4
    assert plan.notes == ("data files deleted by snapshot 2: its delta cannot be read",)
    tagged = plan_expire(inputs_of({2: GONE}), retention=Retention(), tag_ids=[1])
    assert tagged.phases[0] == ()
    assert "the tag of snapshot 1 cannot be read" in tagged.notes[0]
    broken = dataclasses.replace(inputs_of({2: []}), end=dataclasses.replace(snapshot(2), base=None))
    assert {f.role for f in plan_expire(broken, retention=Retention()).files} == {Role.SNAPSHOT}
    # Of what a run that was cut off has left, the rest goes: parts of a snapshot, and whole ones, may be missing.
    parts = dataclasses.replace(snapshot(1), base=None, delta=None, changelog=None, index=None)
    rest = plan_expire(dataclasses.replace(inputs_of({2: [], 4: []}), expiring=[parts]), retention=Retention())
    assert ([f.name for f in rest.files], rest.notes) == (["manifest-list-b1", "manifest-list-d1", "1"], ())


def test_lists_go_after_what_they_name() -> None:
    """A run that is cut off leaves nothing that the next one does not find."""
    names = ("manifest-list-1", "manifest-1", "index-manifest-1", "index-1", "stat-1")
    phases = children_first([FileToDelete(Role.INDEX if n == "index-1" else Role.MANIFEST, n) for n in names])
    assert [[f.name for f in phase] for phase in phases] == [
        ["manifest-1", "index-1", "stat-1"], ["manifest-list-1", "index-manifest-1"],
    ]  # fmt: skip


def test_only_the_tag_file_goes_while_others_use_the_snapshot() -> None:
    assert [(f.role, f.name) for f in plan_delete_tag("t", None).files] == [(Role.TAG, "t")]


def test_rollback_order_and_changelogs() -> None:
    inputs = RollbackInputs(
        target=snapshot(3),
        target_exists=True,
        dropped=[snapshot(4), snapshot(5)],
        # The snapshot of the last tag has expired.
        dropped_tags={"a": snapshot(4), "b": snapshot(5), "c": snapshot(6)},
        changelogs=[1, 2, 4, 5],
        entries=[entry(FileKind.ADD, FLUSHED), entry(FileKind.ADD, COMPACTED)],
        changelog_entries=[entry(FileKind.ADD, a_file("changelog-5"))],
        used=frozenset({(EMPTY_ROW, 0, "compacted")}),
    )
    plan = plan_rollback(inputs)
    assert [f.name for f in plan.files] == [
        "5", "4", "5", "4", "c", "b", "a", "flushed", "changelog-5",
        *(f"manifest-list-{of}{number}" for number in (4, 5, 6) for of in "bd"),
    ]  # fmt: skip
    assert (plan.latest_hint, plan.changelog_hint, plan.restore_snapshot) == (3, 2, None)
    # The state of a tag comes back without its changelog, which went with the snapshot.
    of_tag = dataclasses.replace(inputs, target=snapshot(3, changelog=True), target_exists=False)
    assert plan_rollback(of_tag).restore_snapshot == snapshot(3).snapshot
    assert plan_rollback(dataclasses.replace(inputs, changelogs=[4])).changelog_hint == -1
    assert plan_rollback(dataclasses.replace(inputs, changelogs=[1])).changelog_hint is None
    with pytest.raises(InvalidInputError, match="cannot roll back to snapshot 3"):
        plan_rollback(dataclasses.replace(inputs, target=dataclasses.replace(snapshot(3), delta=None)))
