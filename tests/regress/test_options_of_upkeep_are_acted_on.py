"""Options that ask for upkeep after a batch were read and left alone: after four batches with ``tag.automatic-creation`` = batch
there was no tag (G6)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from lakeidx.api import Table
from lakeidx.format.snapshot import CommitKind
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.tags import create_tag, list_tags
from lakeidx.tasks.runner import LocalRunner


def make(path: Path, **options: str) -> Table:
    spec = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
        "primaryKeys": ["id"],
        "options": {"bucket": "1", **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}},
    }
    return Table.create(str(path / "t"), spec)


def batch(table: Table, number: int) -> None:
    table.upsert(pa.table({"id": pa.array([1, number + 1], pa.int64()), "v": pa.array([number, number], pa.int64())}))


def kinds(table: Table) -> list[CommitKind]:
    return [s.commit_kind for s in table.metadata.snapshots()]


def levels(table: Table) -> list[int]:
    return sorted(f.level for b in table.scan().plan.buckets for s in b.sections for r in s for f in r)


A, C = CommitKind.APPEND, CommitKind.COMPACT


def test_batches_make_tags(tmp_path: Path) -> None:
    table = make(
        tmp_path, tag__automatic_creation="batch", sink__process_time_zone="UTC", tag__default_time_retained="2 d"
    )
    before = datetime.now(UTC).date().isoformat()
    for number in range(2):
        batch(table, number)
    names = {f"batch-write-{d}" for d in (before, datetime.now(UTC).date().isoformat())}
    tags = list_tags(table.metadata)
    assert set(tags) <= names
    newest = tags[max(tags)]
    assert newest.snapshot.id == 2
    assert newest.time_retained_ns == 2 * 86400 * 10**9
    # A tag made by hand without a retention gets the table's.
    assert create_tag(table.metadata, "mine").time_retained_ns == 2 * 86400 * 10**9
    assert create_tag(table.metadata, "short", retained_ms=1000).time_retained_ns == 10**9


def test_commits_of_a_process_time_table_make_the_tag_of_the_period_before(tmp_path: Path) -> None:
    table = make(tmp_path, tag__automatic_creation="process-time", sink__process_time_zone="UTC")
    batch(table, 0)
    assert len(list_tags(table.metadata)) == 1
    run_compaction(table.metadata, LocalRunner(1), full=True)
    batch(table, 1)
    (tag,) = list_tags(table.metadata).values()
    assert tag.snapshot.id == 1


def test_a_batch_compacts_when_commits_are_to(tmp_path: Path) -> None:
    table = make(tmp_path, commit__force_compact="true", num_sorted_run__compaction_trigger="3")
    for number in range(4):
        batch(table, number)
    assert kinds(table) == [A, A, A, C, A]
    assert table.scan().to_arrow().num_rows == 4


def test_every_so_many_commits_all_is_compacted(tmp_path: Path) -> None:
    table = make(tmp_path, full_compaction__delta_commits="2")
    for number in range(5):
        batch(table, number)
    assert kinds(table) == [A, A, C, A, A, C, A]
    assert levels(table) == [0, 5]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "v": 4}, *({"id": n + 1, "v": n} for n in range(1, 5))
    ]  # fmt: skip


def test_write_only_goes_before_both(tmp_path: Path) -> None:
    table = make(tmp_path, commit__force_compact="true", full_compaction__delta_commits="1", write_only="true",
                 num_sorted_run__compaction_trigger="1")  # fmt: skip
    for number in range(3):
        batch(table, number)
    assert kinds(table) == [A, A, A]


def test_every_commit_has_its_changelog_when_it_is_compacted_at_once(tmp_path: Path) -> None:
    table = make(tmp_path, changelog_producer="full-compaction", full_compaction__delta_commits="1")
    for number in range(2):
        batch(table, number)
    assert kinds(table) == [A, C, A, C]
    assert [s.changelog_record_count for s in table.metadata.snapshots()] == [None, 1, None, 3]
