"""Every rule is shown to fail: a healthy table is damaged in one way, and the rules concerned, and only those, go red."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.format.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakeidx.quality.batch_rules import BatchCounts, CommittedRows, check_rows_accounted, check_staged_rows_committed
from lakeidx.quality.file_rules import check_orphans, check_referenced_files
from lakeidx.quality.hash_rules import check_live_keys_indexed, check_one_bucket_per_hash, check_stale_hashes
from lakeidx.quality.index_file_rules import IndexFile, check_bucket_rows, check_bucket_skew, check_index_files
from lakeidx.quality.key_rules import BucketKeys, check_keys_unique
from lakeidx.quality.result import BucketId, RuleResult, Severity
from lakeidx.quality.snapshot_rules import check_snapshot_chain

P, Q = b"p", b"q"
TARGET = 40
COLLIDING = (b"collides-1", b"collides-2")


def hash_of(key: bytes) -> int:
    value = zlib.crc32(COLLIDING[0] if key in COLLIDING else key)
    return value - 2**32 if value >= 2**31 else value


def hash_column(keys: list[bytes]) -> np.ndarray:
    return np.array([hash_of(k) for k in keys], np.int32)


def snapshot(number: int, total: int, delta: int, *, identifier: int, kind: CommitKind = CommitKind.APPEND) -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=identifier,
        commit_kind=kind,
        time_millis=number,
        total_record_count=total,
        delta_record_count=delta,
    )


def healthy_keys() -> dict[BucketId, list[bytes]]:
    return {
        (P, 0): [f"p-{i}".encode() for i in range(38)] + list(COLLIDING),
        (P, 1): [f"p-{i}".encode() for i in range(38, 60)],
        (Q, 0): [f"p-{i}".encode() for i in range(30)],  # the same keys in another partition are other rows
    }


@dataclass
class Table:
    """What the rules look at, free to be damaged."""

    live: dict[BucketId, list[bytes]] = field(default_factory=healthy_keys)
    index: dict[BucketId, list[int]] = field(default_factory=dict)
    entries: dict[BucketId, IndexEntry] = field(default_factory=dict)
    extra_entries: list[IndexEntry] = field(default_factory=list)
    sizes: dict[BucketId, int | None] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    latest_hint: int | None = 12
    batch: BatchCounts = field(
        default_factory=lambda: BatchCounts(batch_id="b1", ingested=100, inserted=60, updated=30, deleted=7, rejected=3)
    )
    committed: CommittedRows = field(default_factory=lambda: CommittedRows(staged=59, superseded=4, committed=55))
    files: dict[str, int | None] = field(default_factory=lambda: {"a.parquet": 10, "b.parquet": None, "index-0": 160})
    listing: dict[str, int] = field(default_factory=lambda: {"a.parquet": 10, "b.parquet": 7, "index-0": 160, "old": 5})
    orphans: dict[str, int] = field(default_factory=lambda: {"old": 5})
    max_buckets: int = -1

    def __post_init__(self) -> None:
        for bucket_id, keys in self.live.items():
            self.index[bucket_id] = sorted({hash_of(k) for k in keys})
            self.rewrite(bucket_id)
        self.snapshots = {
            9: snapshot(9, 100, 100, identifier=1),
            10: snapshot(10, 90, -10, identifier=1, kind=CommitKind.COMPACT),
            11: snapshot(11, 95, 5, identifier=BATCH_COMMIT_IDENTIFIER),
            12: snapshot(12, 99, 4, identifier=BATCH_COMMIT_IDENTIFIER),
        }

    def rewrite(self, bucket_id: BucketId) -> None:
        """Write the bucket's index file and its manifest entry anew."""
        rows = len(self.index[bucket_id])
        self.sizes[bucket_id] = 4 * rows
        self.entries[bucket_id] = IndexEntry(
            kind=FileKind.ADD,
            partition=bucket_id[0],
            bucket=bucket_id[1],
            index_type="HASH",
            file_name=f"index-{bucket_id[0].decode()}-{bucket_id[1]}",
            file_size=4 * rows,
            row_count=rows,
        )

    def index_files(self) -> list[IndexFile]:
        out = []
        for bucket_id, entry in self.entries.items():
            size = self.sizes[bucket_id]
            readable = size is not None and size % 4 == 0
            hashes = np.array(self.index[bucket_id], np.int32)[: (size or 0) // 4] if readable else None
            out.append(IndexFile(entry=entry, size=size, hashes=hashes))
        return out + [IndexFile(entry=e, size=e.file_size, hashes=None) for e in self.extra_entries]

    def verdicts(self) -> dict[str, RuleResult]:
        index = {(f.entry.partition, f.entry.bucket): f.hashes for f in self.index_files() if f.hashes is not None}
        live = {bucket_id: hash_column(keys) for bucket_id, keys in self.live.items()}
        keys = [
            BucketKeys(partition=p, bucket=b, keys=RowBytes.from_list(ks), hashes=hash_column(ks))
            for (p, b), ks in self.live.items()
        ]
        rows = {bucket_id: len(hashes) for bucket_id, hashes in index.items()}
        results = [
            check_one_bucket_per_hash(index, partition_name=bytes.decode),
            check_live_keys_indexed(live, index, partition_name=bytes.decode),
            check_stale_hashes(live, index, partition_name=bytes.decode),
            check_index_files(self.index_files(), partition_name=bytes.decode),
            check_keys_unique(keys, partition_name=bytes.decode, key_name=bytes.decode),
            check_bucket_rows(rows, target_rows=TARGET, max_buckets=self.max_buckets, partition_name=bytes.decode),
            check_bucket_skew(rows, partition_name=bytes.decode),
            check_rows_accounted(self.batch),
            check_staged_rows_committed(self.committed),
            check_snapshot_chain(self.snapshots, latest_hint=self.latest_hint),
            check_referenced_files(self.files, self.listing),
            check_orphans(self.orphans, max_files=1),
        ]
        assert len({r.name for r in results}) == len(results)
        return {r.name: r for r in results}


def drop_hash(t: Table) -> None:
    t.index[P, 1].remove(hash_of(b"p-40"))
    t.rewrite((P, 1))


def copy_hash(t: Table) -> None:
    t.index[P, 1].append(hash_of(b"p-3"))
    t.rewrite((P, 1))


def move_hash(t: Table) -> None:
    copy_hash(t)
    t.index[P, 0].remove(hash_of(b"p-3"))
    t.rewrite((P, 0))


def delete_key(t: Table) -> None:
    t.live[Q, 0].remove(b"p-7")


def lose_index_of_bucket(t: Table) -> None:
    del t.entries[Q, 0]


def truncate_index(t: Table) -> None:
    t.sizes[P, 1] = 4 * 21


def tear_index(t: Table) -> None:
    t.sizes[Q, 0] = 4 * 30 - 1


def lose_index_file(t: Table) -> None:
    t.sizes[Q, 0] = None


def forge_manifest_rows(t: Table) -> None:
    t.entries[P, 0] = replace(t.entries[P, 0], row_count=38)


def forge_manifest_size(t: Table) -> None:
    t.entries[P, 0] = replace(t.entries[P, 0], file_size=152)


def repeat_hash(t: Table) -> None:
    t.index[P, 1].append(hash_of(b"p-41"))
    t.rewrite((P, 1))


def second_file(t: Table) -> None:
    t.extra_entries = [replace(t.entries[P, 1], file_name="index-again")]


def key_in_two_buckets(t: Table) -> None:
    t.live[P, 1].append(b"p-3")
    t.index[P, 1].append(hash_of(b"p-3"))
    t.rewrite((P, 1))


def key_twice(t: Table) -> None:
    t.live[P, 1] += [b"p-44", b"p-44"]


def overfill(t: Table) -> None:
    new = [f"new-{i}".encode() for i in range(19)]
    t.live[P, 1] += new
    t.index[P, 1] += [hash_of(k) for k in new]
    t.rewrite((P, 1))


def overfill_at_max_buckets(t: Table) -> None:
    overfill(t)
    t.max_buckets = 2


def skew(t: Table) -> None:
    for b in (2, 3, 4):
        key = f"lonely-{b}".encode()
        t.live[P, b], t.index[P, b] = [key], [hash_of(key)]
        t.rewrite((P, b))


def too_many_buckets(t: Table) -> None:
    t.max_buckets = 1


def miscount(t: Table) -> None:
    t.batch = replace(t.batch, inserted=58)


def negative_count(t: Table) -> None:
    t.batch = replace(t.batch, inserted=94, deleted=-27)


def lose_rows(t: Table) -> None:
    t.committed = replace(t.committed, committed=53)


def commit_rows_twice(t: Table) -> None:
    t.committed = replace(t.committed, committed=101)


def lose_snapshot(t: Table) -> None:
    del t.snapshots[10]


def forge_snapshot_total(t: Table) -> None:
    t.snapshots[11] = replace(t.snapshots[11], total_record_count=96)


def forge_snapshot_id(t: Table) -> None:
    t.snapshots[11] = replace(t.snapshots[11], id=7)


def commit_twice(t: Table) -> None:
    t.snapshots[12] = replace(t.snapshots[12], commit_identifier=1)


def lose_newest_snapshot(t: Table) -> None:
    del t.snapshots[12]


def delete_file(t: Table) -> None:
    del t.listing["b.parquet"]


def cut_file(t: Table) -> None:
    t.listing["a.parquet"] = 9


def leave_orphans(t: Table) -> None:
    t.orphans["older"] = 50


# damage, rules that fail, first offender of the first of them (the named keys only)
DAMAGES: list[tuple[Callable[[Table], None], list[str], dict[str, Any]]] = [
    (drop_hash, ["live_keys_indexed"], {"partition": "p", "bucket": 1, "hash": hash_of(b"p-40"), "indexed_in": []}),
    (copy_hash, ["hash_in_one_bucket", "stale_hashes"], {"partition": "p", "hash": hash_of(b"p-3"), "buckets": [0, 1]}),
    (move_hash, ["live_keys_indexed", "stale_hashes"], {"partition": "p", "bucket": 0, "hash": hash_of(b"p-3"), "indexed_in": [1]}),
    (delete_key, ["stale_hashes"], {"partition": "q", "bucket": 0, "stale_hashes": 1, "hashes": 30, "first": hash_of(b"p-7")}),
    (lose_index_of_bucket, ["live_keys_indexed"], {"partition": "q", "bucket": 0}),
    (truncate_index, ["index_files_agree", "live_keys_indexed"], {"file": "index-p-1", "size": 84, "manifest_size": 88}),
    (tear_index, ["index_files_agree", "live_keys_indexed"], {"file": "index-q-0", "fault": "torn", "size": 119}),
    (lose_index_file, ["index_files_agree", "live_keys_indexed"], {"file": "index-q-0", "fault": "missing"}),
    (forge_manifest_rows, ["index_files_agree"], {"fault": "of_other_row_count", "rows": 39, "manifest_rows": 38}),
    (forge_manifest_size, ["index_files_agree"], {"fault": "of_other_size", "size": 156, "manifest_size": 152}),
    (repeat_hash, ["index_files_agree"], {"fault": "with_repeats", "repeats": 1, "first": hash_of(b"p-41")}),
    (second_file, ["index_files_agree"], {"fault": "second_of_bucket", "file": "index-again", "first": "index-p-1"}),
    (key_in_two_buckets, ["primary_key_once", "hash_in_one_bucket"], {"key": "p-3", "buckets": [0, 1], "times": [1, 1]}),
    (key_twice, ["primary_key_once"], {"partition": "p", "key": "p-44", "buckets": [1], "times": [3]}),
    (overfill, ["bucket_rows_within_target"], {"partition": "p", "bucket": 1, "rows": 41, "target_rows": 40}),
    (overfill_at_max_buckets, [], {}),
    (skew, ["bucket_skew"], {"partition": "p", "bucket": 0, "rows": 39, "skew": 3.047}),
    (too_many_buckets, ["bucket_rows_within_target"], {"partition": "p", "buckets": 2, "max_buckets": 1}),
    (miscount, ["batch_rows_accounted"], {"batch_id": "b1", "ingested": 100, "difference": 2}),
    (negative_count, ["batch_rows_accounted"], {"deleted": -27, "difference": 0}),
    (lose_rows, ["staged_rows_committed"], {"staged": 59, "superseded": 4, "committed": 53}),
    (commit_rows_twice, ["staged_rows_committed"], {"staged": 59, "superseded": 4, "committed": 101}),
    (lose_snapshot, ["snapshot_chain"], {"fault": "hole", "from": 10, "to": 10}),
    (forge_snapshot_total, ["snapshot_chain"], {"fault": "total_does_not_add_up", "snapshot": 11, "total": 96, "expected": 95}),
    (forge_snapshot_id, ["snapshot_chain"], {"fault": "other_id", "snapshot": 11, "says": 7}),
    (commit_twice, ["snapshot_chain"], {"fault": "committed_twice", "snapshot": 12, "first": 9, "commit_user": "u"}),
    (lose_newest_snapshot, ["snapshot_chain"], {"fault": "behind_the_hint", "latest": 11, "hint": 12}),
    (delete_file, ["referenced_files_exist"], {"file": "b.parquet", "fault": "missing"}),
    (cut_file, ["referenced_files_exist"], {"file": "a.parquet", "fault": "of_other_size", "size": 10, "found": 9}),
    (leave_orphans, ["orphans_below_limit"], {"file": "older", "bytes": 50}),
]  # fmt: skip

WARNINGS = {"stale_hashes", "bucket_skew", "orphans_below_limit"}


def test_a_healthy_table_passes_every_rule() -> None:
    for result in Table().verdicts().values():
        assert result.passed, result
        assert list(result.sample) == []
        assert result.description.endswith(".")


@pytest.mark.parametrize(("damage", "failing", "offender"), DAMAGES, ids=[d[0].__name__ for d in DAMAGES])
def test_damage_turns_the_rules_concerned_red(
    damage: Callable[[Table], None], failing: list[str], offender: dict[str, Any]
) -> None:
    table = deepcopy(Table())
    damage(table)
    verdicts = table.verdicts()
    assert {name for name, result in verdicts.items() if not result.passed} == set(failing)
    for name in failing:
        result = verdicts[name]
        assert result.sample, name
        assert result.severity is (Severity.WARN if name in WARNINGS else Severity.ERROR)
    if failing:
        first = verdicts[failing[0]].sample[0]
        assert {k: first[k] for k in offender} == offender


def test_every_rule_is_damaged_by_something() -> None:
    assert {name for _, failing, _ in DAMAGES for name in failing} == set(Table().verdicts())


def test_metrics_count_what_the_sample_only_shows() -> None:
    table = Table()
    for key in [f"p-{i}".encode() for i in range(38, 60)] * 2:
        table.live[P, 0].append(key)
    verdicts = table.verdicts()
    unique = verdicts["primary_key_once"]
    assert (unique.metrics["keys_in_several_buckets"], unique.metrics["keys_twice_in_a_bucket"]) == (22, 22)
    assert unique.metrics["keys"] == 38 + 2 + 44 + 22 + 30
    assert len(unique.sample) == 20
    gaps = verdicts["live_keys_indexed"]
    assert gaps.metrics["hashes_not_indexed"] == 22
    assert len(gaps.sample) == 20
    assert all(offender["indexed_in"] == [1] for offender in gaps.sample)
