"""Compaction of whole tables: conflicts, shrinking indexes, bad input. Rows are compared with a plain dictionary."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.upsert import commit_batch
from lakeidx.errors import CommitConflictError, CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.manifest import FileKind
from lakeidx.format.snapshot import CommitKind
from lakeidx.maintenance.compaction import FULL_COMPACT_USER, CompactionReport, run_compaction
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.view import data_file_path, load_view
from lakeidx.tasks import groups
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.reachable import files_on_disk
from tests.kit.small_tables import SPEC, content, filled_table, keep_newest, make_table, staged_batch, upsert
from tests.kit.table_history import index_hashes, key_hashes

OPTIONS = {
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "2 ms",
    "num-sorted-run.compaction-trigger": "3",
    "num-levels": "6",
}


def compact(table: Table, **arguments: Any) -> CompactionReport:
    return run_compaction(table.metadata, LocalRunner(1), sleep=lambda _: None, **arguments)


def faulty(table: Table) -> tuple[Table, FaultStore]:
    store = FaultStore(table.store)
    return Table(store, table.paths), store


def filled(
    folder: Path, batches: int = 2, options: dict[str, str] | None = None
) -> tuple[Table, dict[tuple[int, int], str | None]]:
    """Two partitions, keys 0 to 5, every batch overwriting all values."""
    table = make_table(folder, options=OPTIONS | (options or {}))
    model: dict[tuple[int, int], str | None] = {}
    for i in range(batches):
        rows = [(p, k, f"{i}") for p in (1, 2) for k in range(6)]
        upsert(table, rows)
        model |= {(p, k): v for p, k, v in rows}
    return table, model


def levels(table: Table) -> list[int]:
    m = table.metadata
    return sorted(e.file.level for e in load_view(m, m.latest_snapshot()).entries)


def test_full_compaction_leaves_one_file_per_bucket_and_the_same_rows(tmp_path: Path) -> None:
    table, model = filled(tmp_path, 3)
    report = compact(table, full=True)
    assert levels(table) == [5, 5]
    assert content(table) == model
    assert (report.files_in, report.files_out, report.rows_in, report.rows_out) == (6, 2, 36, 12)
    assert table.snapshot is not None
    assert table.snapshot.commit_kind is CommitKind.COMPACT
    assert table.snapshot.total_record_count == 12
    assert content(table, snapshot=3) == model
    assert compact(table, full=True).snapshot_ids == ()


def test_compaction_picks_only_what_needs_it(tmp_path: Path) -> None:
    table, model = filled(tmp_path, 2)
    assert compact(table).snapshot_ids == ()
    for value in ("new", "newer"):
        upsert(table, [(1, 0, value)])
    report = compact(table)
    assert report.buckets == 1
    assert [p["reason"] for p in report.picked] == ["size amplification"]
    assert levels(table) == [0, 0, 5]
    assert content(table) == model | {(1, 0): "newer"}


MEASURED = {"snapshot_ids", "rounds", "seconds", "memory", "dry_run"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "-1"},
        {"bucket": "2", "changelog-producer": "full-compaction"},
        {"bucket": "2", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ],
)
def test_a_dry_run_says_what_the_run_does_and_writes_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    table, _ = filled(tmp_path, 3, options=options)
    before = files_on_disk(table)
    plan = compact(table, full=True, dry_run=True)
    assert [(p["reason"], p["files"]) for p in plan.picked] == [("full compaction", 3)] * len(plan.picked)
    assert files_on_disk(table) == before
    assert plan.seconds > 0
    assert plan.memory
    done = compact(table, full=True)
    assert plan.model_dump(exclude=MEASURED) == done.model_dump(exclude=MEASURED)


def test_a_dry_run_tries_the_lightest_buckets_and_reckons_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = filled(tmp_path, 3)
    whole = compact(table, full=True, dry_run=True)
    lightest = min(int(p["rewrite_bytes"]) for p in whole.picked)
    monkeypatch.setattr("lakeidx.maintenance.compaction._TRIED_BYTES", lightest)
    plan = compact(table, full=True, dry_run=True)
    assert (plan.files_in, plan.bytes_in, plan.files_out) == (6, whole.bytes_in, 2)
    assert plan.rows_out == pytest.approx(whole.rows_out, rel=0.2)
    monkeypatch.setattr("lakeidx.maintenance.compaction._TRIED_BYTES", lightest - 1)
    plan = compact(table, full=True, dry_run=True)
    assert (plan.files_in, plan.bytes_in, len(plan.picked)) == (6, whole.bytes_in, 2)


def test_a_bucket_somebody_else_compacted_is_planned_again(tmp_path: Path) -> None:
    table, model = filled(tmp_path)
    part = next(iter(load_view(table.metadata, table.snapshot).by_bucket()))[0]

    def meanwhile(*_: str) -> None:
        compact(table, full=True, partitions={part})
        upsert(table, [(1, 3, "after"), (2, 3, "after")])

    racing, store = faulty(table)
    store.fail("put_if_absent", "snapshot-3", act=meanwhile)
    report = compact(racing, full=True)
    # The other partition's work was kept, and the racing compaction was followed by one of what came after it.
    assert report.rounds == 2
    assert report.buckets == 2
    again = Table.open(table.uri)
    assert content(again) == model | {(1, 3): "after", (2, 3): "after"}
    assert levels(again) == [0, 5, 5]


def test_of_two_compactions_of_the_same_files_one_does_nothing(tmp_path: Path) -> None:
    table, model = filled(tmp_path)
    racing, store = faulty(table)
    store.fail("put_if_absent", "snapshot-3", act=lambda *_: compact(table, full=True) and None)
    report = compact(racing, full=True)
    assert (report.snapshot_ids, report.buckets, report.rounds) == ((), 0, 1)
    again = Table.open(table.uri)
    assert content(again) == model
    assert again.metadata.snapshot_ids() == [1, 2, 3]


def test_a_compaction_planned_before_an_overwrite_brings_nothing_back(tmp_path: Path) -> None:
    table, model = filled(tmp_path)
    racing, store = faulty(table)
    store.fail(
        "put_if_absent", "snapshot-3", act=lambda *_: upsert(table, [(1, 77, "only")], overwrite="partitions") and None
    )
    compact(racing, full=True)
    expected = {k: v for k, v in model.items() if k[0] == 2} | {(1, 77): "only"}
    assert content(Table.open(table.uri)) == expected


@pytest.mark.slow
def test_endless_conflicts_are_given_to_the_caller(tmp_path: Path) -> None:
    table, _ = filled(tmp_path)
    racing, store = faulty(table)

    def meanwhile(*_: str) -> None:
        upsert(table, [(1, 0, "x"), (2, 0, "x")], overwrite="partitions")
        # An overwritten bucket is compacted; a further run gives the next plan work to do.
        upsert(table, [(1, 0, "x"), (2, 0, "x")])

    store.fail("put_if_absent", lambda p: "/snapshot/snapshot-" in p, act=meanwhile, times=100)
    with pytest.raises(CommitConflictError):
        compact(racing, full=True)
    assert content(Table.open(table.uri)) == {(1, 0): "x", (2, 0): "x"}


def test_an_upgraded_file_does_not_look_like_an_earlier_try(tmp_path: Path) -> None:
    """Its name is live in older snapshots; with the base expired that must not pass for 'committed already'."""
    table = filled_table(tmp_path, [(1, 0, "a")], options=OPTIONS)
    old = load_view(table.metadata, table.snapshot).entries[0]
    upsert(table, [(2, 0, "b")])
    upsert(table, [(2, 1, "c")])
    keep_newest(table)
    up = replace(old, file=replace(old.file, level=5))
    changes = TableChanges(compact=(replace(old, kind=FileKind.DELETE), up))
    result = commit_changes(table.metadata, CommitRequest(commit_user="u", changes=changes, base_snapshot_id=1))
    assert (result.already, result.snapshot_ids) == (False, (4,))
    assert 5 in levels(table)


# ---- hash index that shrinks -------------------------------------------------------------------------------------------


def deleted(folder: Path, **options: str) -> Table:
    """Keys 0 to 19 of one partition in two buckets of ten; 5 to 14 deleted."""
    table = filled_table(folder, [(1, k, "a") for k in range(20)], options={**OPTIONS, **options})
    upsert(table, [(1, k, None) for k in range(5, 15)], ["-D"] * 10)
    return table


def hashes(table: Table) -> set[int]:
    return index_hashes(Table.open(table.uri)).get(1, set())


LIVE = [(1, k) for k in (*range(5), *range(15, 20))]
ALL = [(1, k) for k in range(20)]


def test_the_index_keeps_deleted_keys_unless_asked_and_after_a_partial_compaction(tmp_path: Path) -> None:
    table = deleted(tmp_path)
    upsert(table, [(1, 0, "x"), (1, 1, "x"), (1, 16, "x"), (1, 17, "x"), (1, 18, "x")])
    assert compact(table, shrink=True).hashes_dropped == 0
    assert hashes(table) == set(key_hashes(table, ALL))
    compact(table, full=True)
    assert hashes(table) == set(key_hashes(table, ALL))
    assert content(table) == {key: "x" if key[1] in (0, 1, 16, 17, 18) else "a" for key in LIVE}


@pytest.mark.parametrize("by_option", [True, False])
def test_a_full_compaction_shrinks_the_index_to_the_live_keys(tmp_path: Path, by_option: bool) -> None:
    table = deleted(tmp_path, **({"lakeidx.hash-index.shrink": "true"} if by_option else {}))
    report = compact(table, full=True, shrink=None if by_option else True)
    assert report.hashes_dropped == 10
    assert hashes(table) == set(key_hashes(table, LIVE))
    # The room of the deleted keys is filled before a bucket is opened.
    result = upsert(table, [(1, k, "b") for k in range(100, 110)])
    assert result.assign.new_buckets == 0
    assert content(table) == dict.fromkeys(LIVE, "a") | {(1, k): "b" for k in range(100, 110)}
    assert hashes(table) == set(key_hashes(table, [*LIVE, *((1, k) for k in range(100, 110))]))
    # Known keys are still found where they are.
    upsert(table, [(1, k, "c") for _, k in LIVE])
    assert content(table)[(1, 0)] == "c"


@pytest.mark.parametrize("everything", [False, True], ids=["some deleted", "all deleted"])
def test_an_index_can_be_shrunk_after_the_rows_are_gone(tmp_path: Path, everything: bool) -> None:
    table = deleted(tmp_path)
    if everything:
        upsert(table, [(1, k, None) for k in range(20)], ["-D"] * 20)
    compact(table, full=True)
    report = compact(table, full=True, shrink=True)
    assert (report.files_in, report.files_out) == (0, 0)
    assert report.hashes_dropped == (20 if everything else 10)
    assert hashes(table) == (set() if everything else set(key_hashes(table, LIVE)))
    assert compact(table, full=True, shrink=True).snapshot_ids == ()
    upsert(table, [(1, k, "z") for k in range(20)])
    assert content(table) == dict.fromkeys(ALL, "z")


def test_a_row_that_arrives_meanwhile_is_in_the_shrunk_index(tmp_path: Path) -> None:
    table = deleted(tmp_path)
    racing, store = faulty(table)
    store.fail("put_if_absent", "snapshot-3", act=lambda *_: upsert(table, [(1, 7, "back")]) and None)
    report = compact(racing, full=True, shrink=True)
    assert report.rounds == 2
    assert hashes(table) == set(key_hashes(table, [*LIVE, (1, 7)]))
    assert content(Table.open(table.uri)) == dict.fromkeys(LIVE, "a") | {(1, 7): "back"}


def test_a_batch_assigned_before_the_shrink_is_assigned_again(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, k, "a") for k in range(16)], options=OPTIONS)
    upsert(table, [(1, k, None) for k in range(8)], ["-D"] * 8)
    batch = staged_batch(table, [(1, k, "b") for k in range(4, 12)])
    assert compact(table, full=True, shrink=True).hashes_dropped == 8
    commit_batch(batch, sleep=lambda _: None)
    live = {(1, k): "b" if k < 12 else "a" for k in range(4, 16)}
    assert content(Table.open(table.uri)) == live
    assert hashes(table) == set(key_hashes(table, live))


# ---- bad input ---------------------------------------------------------------------------------------------------------


def data_files(table: Table) -> list[Path]:
    return sorted(Path(table.uri).rglob("data-*.parquet"))


def levels_of(table: Table) -> dict[str, list[int]]:
    """Levels of the live files by directory of their bucket."""
    out: dict[str, list[int]] = {}
    fresh = Table.open(table.uri)
    for entry in load_view(fresh.metadata, fresh.snapshot).entries:
        path = Path(data_file_path(fresh.metadata, entry))
        out.setdefault(str(path.parent), []).append(entry.file.level)
    return {k: sorted(v) for k, v in out.items()}


def test_a_damaged_or_missing_data_file_costs_only_its_bucket_and_is_named(tmp_path: Path) -> None:
    table, model = filled(tmp_path)
    victim = data_files(table)[0]
    whole = victim.read_bytes()
    os.truncate(victim, victim.stat().st_size // 2)
    with pytest.raises(
        CorruptFileError, match=f"1 of 2 buckets were not compacted, 1 were committed: .*{victim.name}"
    ) as e:
        compact(table, full=True)
    assert str(victim.parent) in str(e.value)
    assert sorted(levels_of(table).values()) == [[0, 0], [5]]
    assert levels_of(table)[str(victim.parent)] == [0, 0]
    (made,) = set(table.metadata.snapshot_ids()) - {1, 2}
    # A compaction that left a bucket out is no full one.
    assert not table.metadata.load_snapshot(made).commit_user.startswith(FULL_COMPACT_USER)
    # Where every bucket fails nothing is committed.
    victim.unlink()
    before = files_on_disk(table)
    with pytest.raises(
        NotFoundError, match=f"1 of 1 buckets were not compacted, 0 were committed: .*{victim.name}"
    ) as missing:
        compact(table, full=True)
    assert str(victim.parent) in str(missing.value)
    assert table.metadata.snapshot_ids() == [1, 2, made]
    assert {f for f in files_on_disk(table) if "bucket-" not in f} == {f for f in before if "bucket-" not in f}
    victim.write_bytes(whole)
    assert compact(table, full=True).buckets == 1
    assert content(Table.open(table.uri)) == model


# ---- groups ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUP_ITEMS", 2)


def five_partitions(folder: Path) -> tuple[Table, dict[tuple[int, int], str | None]]:
    table = make_table(folder, options=OPTIONS)
    for value in ("a", "b"):
        upsert(table, [(p, 0, value) for p in range(5)])
    return table, {(p, 0): "b" for p in range(5)}


@pytest.mark.usefixtures("in_groups_of_two")
def test_buckets_are_committed_in_groups_and_only_the_last_commit_is_a_full_compaction(tmp_path: Path) -> None:
    table, model = five_partitions(tmp_path)
    report = compact(table, full=True)
    assert (report.snapshot_ids, report.buckets, report.rounds) == ((3, 4, 5), 5, 1)
    made = [table.metadata.load_snapshot(i) for i in report.snapshot_ids]
    assert [s.commit_kind for s in made] == [CommitKind.COMPACT] * 3
    assert [s.commit_user.startswith(FULL_COMPACT_USER) for s in made] == [False, False, True]
    assert levels(Table.open(table.uri)) == [5] * 5
    assert content(Table.open(table.uri)) == model


@pytest.mark.usefixtures("in_groups_of_two")
def test_a_driver_that_dies_loses_the_group_it_was_in(tmp_path: Path) -> None:
    table, model = five_partitions(tmp_path)
    dying, store = faulty(table)
    store.fail("put_if_absent", "snapshot-4", error=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        compact(dying, full=True)
    assert levels(Table.open(table.uri)) == [0] * 6 + [5] * 2
    report = compact(Table.open(table.uri), full=True)
    assert (report.buckets, len(report.snapshot_ids)) == (3, 2)
    assert content(Table.open(table.uri)) == model


@pytest.mark.usefixtures("in_groups_of_two")
def test_a_bucket_of_a_later_group_that_got_rows_meanwhile_is_planned_again(tmp_path: Path) -> None:
    table, model = five_partitions(tmp_path)
    racing, store = faulty(table)
    store.fail(
        "put_if_absent", "snapshot-3", when="before",
        act=lambda *_: upsert(Table.open(table.uri), [(p, 0, "later") for p in range(5)], overwrite="partitions"),
    )  # fmt: skip
    compact(racing, full=True)
    assert content(Table.open(table.uri)) == dict.fromkeys(model, "later")


def test_files_that_overlap_in_one_level_are_named(tmp_path: Path) -> None:
    table, _ = filled(tmp_path)
    view = load_view(table.metadata, table.snapshot)
    place = next(iter(view.by_bucket()))
    mine = [e for e in view.entries if (e.partition, e.bucket) == place]
    moved = [e for f in mine for e in (replace(f, kind=FileKind.DELETE), replace(f, file=replace(f.file, level=5)))]
    # As APPEND, whose checks do not look at levels, the way a broken writer would.
    commit_changes(table.metadata, CommitRequest(commit_user="broken", changes=TableChanges(append=tuple(moved))))
    ids = table.metadata.snapshot_ids()
    with pytest.raises(CorruptFileError, match="overlap in level 5") as error:
        compact(table, full=True)
    assert all(f.file.file_name in str(error.value) for f in mine)
    assert table.metadata.snapshot_ids() == ids


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, "v"),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "no_such"}, "no_such"),
        ({"merge-engine": "newest"}, "merge-engine"),
        ({"sequence.field": "nope"}, "nope"),
        ({"merge-engine": "first-row", "sequence.field": "v"}, "sequence"),
    ],
)
def test_an_engine_that_cannot_work_is_refused_at_create(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make_table(tmp_path, options=options)
    assert not Path(f"{tmp_path}/wh/d.db/t/schema/schema-0").exists()


@pytest.mark.parametrize("engine", ["aggregation", "partial-update", "first-row"])
def test_a_retract_that_only_the_compaction_meets_is_refused_there(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As another writer leaves it, or an earlier release.
    monkeypatch.setattr("lakeidx.data.engines.untaken.untaken_rows", lambda schema: ())
    options = {"merge-engine": engine} | ({"fields.v.aggregate-function": "max"} if engine == "aggregation" else {})
    table = filled_table(tmp_path, [(1, 1, "a"), (1, 2, "a")], options=OPTIONS | options)
    upsert(table, [(1, 1, "a")], ["-D"])
    with pytest.raises((InvalidInputError, UnsupportedError)) as error:
        compact(table, full=True)
    assert any(word in str(error.value) for word in (engine, "max", "retract"))
    assert table.metadata.snapshot_ids() == [1, 2]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_compaction_of_a_table_with_a_producer_commits_a_changelog(tmp_path: Path, producer: str) -> None:
    table = filled_table(tmp_path, [(1, 1, "a"), (1, 2, "b")], options={"changelog-producer": producer})
    assert table.snapshot is not None
    assert table.snapshot.changelog_manifest_list is None
    assert compact(table, full=True).changelog_rows == 2
    upsert(table, [(1, 1, "c"), (1, 2, None), (1, 3, None)], ["+U", "-D", "-D"])
    assert compact(table, full=True).changelog_rows == 3
    snapshot = table.metadata.latest_snapshot()
    assert snapshot is not None
    assert (snapshot.id, snapshot.changelog_record_count) == (4, 3)
    assert snapshot.changelog_manifest_list is not None
    (entry,) = [e for m in table.metadata.load_manifest_list(snapshot.changelog_manifest_list)
                for e in table.metadata.load_manifest(m.file_name)]  # fmt: skip
    file = entry.file
    assert (file.level, file.row_count, file.delete_row_count, file.file_source) == (5, 3, 2, 0)
    assert file.file_name.startswith("changelog-")
    path = table.paths.data_file({"p": 1}, entry.bucket, file.file_name)
    # What goes has the sequence number it came with.
    assert pq.read_table(path, columns=["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"], partitioning=None).to_pydict() == {
        "_SEQUENCE_NUMBER": [0, 2, 1], "_VALUE_KIND": [1, 2, 3], "k": [1, 1, 2], "v": ["a", "c", "b"],
    }  # fmt: skip


def test_changelog_producer_input_keeps_every_record(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={**OPTIONS, "changelog-producer": "input"})
    upsert(table, [(1, 2, "a"), (1, 1, "b"), (1, 2, None), (1, 2, "c")], ["+I", "+I", "-D", "+U"])
    snapshot = table.snapshot
    assert snapshot is not None
    assert snapshot.changelog_manifest_list is not None
    assert (snapshot.changelog_record_count, snapshot.delta_record_count) == (4, 2)
    entries = [e for m in table.metadata.load_manifest_list(snapshot.changelog_manifest_list)
               for e in table.metadata.load_manifest(m.file_name)]  # fmt: skip
    assert [e.file.file_name.startswith("changelog-") for e in entries] == [True]
    assert entries[0].file.row_count == 4
    assert compact(table, full=True).snapshot_ids == (2,)
    assert content(table) == {(1, 1): "b", (1, 2): "c"}


def test_a_table_without_snapshots_and_an_unknown_partition_are_no_work(tmp_path: Path) -> None:
    table = make_table(tmp_path, spec=SPEC)
    assert compact(table, full=True, shrink=True).snapshot_ids == ()
    upsert(table, [(1, 1, "a")])
    assert compact(table, full=True, partitions=set()).snapshot_ids == ()


def test_merged_manifests_name_live_files_only(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for n in range(3):
        upsert(table, [(1, k, f"batch {n}") for k in range(5)])
    table.compact(full=True, manifests=True)
    metadata = table.metadata
    newest = metadata.latest_snapshot()
    assert newest is not None
    assert newest.commit_kind is CommitKind.COMPACT
    entries = [e for m in metadata.data_manifests(newest) for e in metadata.load_manifest(m.file_name)]
    live = {data_file_path(metadata, e) for e in load_view(metadata, newest).entries}
    assert {e.kind for e in entries} == {FileKind.ADD}
    assert {data_file_path(metadata, e) for e in entries} == live
    assert content(table) == {(1, k): "batch 2" for k in range(5)}
    assert table.compact(manifests=True).snapshot_ids == (), "there is nothing left to merge"
