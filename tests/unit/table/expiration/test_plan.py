"""Which snapshots expire, at the bounds of each rule; what plans hold besides what the property test sees."""

from __future__ import annotations

import dataclasses

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.options.table_options import TableOptions
from lakeidx.table.expiration.files_to_delete import Role, SnapshotMetadata
from lakeidx.table.expiration.plan import ExpireInputs, ExpireRange, Retention, choose_range, plan_expire, retention_of
from lakeidx.table.expiration.rollback_plan import RollbackInputs, plan_delete_tag, plan_rollback
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


def test_only_the_tag_file_goes_while_others_use_the_snapshot() -> None:
    assert [(f.role, f.name) for f in plan_delete_tag("t", None).files] == [(Role.TAG, "t")]


def test_rollback_order_and_changelogs() -> None:
    inputs = RollbackInputs(
        target=snapshot(3),
        target_exists=True,
        dropped=[snapshot(4), snapshot(5)],
        dropped_tags={"a": snapshot(4), "b": snapshot(5)},
        changelogs=[1, 2, 4, 5],
        entries=[entry(FileKind.ADD, FLUSHED), entry(FileKind.ADD, COMPACTED)],
        used=frozenset({(EMPTY_ROW, 0, "compacted")}),
    )
    plan = plan_rollback(inputs)
    assert [f.name for f in plan.files] == [
        "5", "4", "5", "4", "b", "a", "flushed",
        "manifest-list-b4", "manifest-list-d4", "manifest-list-b5", "manifest-list-d5",
    ]  # fmt: skip
    assert (plan.latest_hint, plan.changelog_hint, plan.restore_snapshot) == (3, 2, None)
    assert plan_rollback(dataclasses.replace(inputs, changelogs=[4])).changelog_hint == -1
    assert plan_rollback(dataclasses.replace(inputs, changelogs=[1])).changelog_hint is None
    with pytest.raises(InvalidInputError, match="cannot roll back to snapshot 3"):
        plan_rollback(dataclasses.replace(inputs, target=dataclasses.replace(snapshot(3), delta=None)))
