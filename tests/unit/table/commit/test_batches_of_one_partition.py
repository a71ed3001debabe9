"""Two batches of one partition: they conflict over a bucket that both touch and a hash that both add, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import CommitConflictError
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.index_files import read_hash_index, write_hash_index
from lakeidx.table.view import load_view
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, filled_table, upsert

#: Hashes that no key of the small tables here has.
OURS, THEIRS, BOTH = 11, 12, 13


def test_updates_commit_beside_another_batch_s_inserts_without_planning_again(tmp_path: Path) -> None:
    made = filled_table(tmp_path, [(1, k, "a") for k in range(20)])
    store = FaultStore(made.store)
    table, other = Table(store, made.paths), Table.open(made.uri)
    store.fail(
        "put_if_absent", "/snapshot/snapshot-2", when="before",
        act=lambda verb, path: upsert(other, [(1, 100, "theirs"), (1, 101, "theirs")]),
    )  # fmt: skip
    result = upsert(table, [(1, 0, "ours"), (1, 19, "ours")])
    assert (result.commit.snapshot_ids, result.commit.replans) == ((3,), 0)
    changed = {(1, 0): "ours", (1, 19): "ours", (1, 100): "theirs", (1, 101): "theirs"}
    assert content(Table.open(made.uri)) == {(1, k): "a" for k in range(20)} | changed


def test_inserts_of_both_batches_go_to_one_open_bucket_so_the_later_one_is_planned_again(tmp_path: Path) -> None:
    made = filled_table(tmp_path, [(1, k, "a") for k in range(20)])
    store = FaultStore(made.store)
    table, other = Table(store, made.paths), Table.open(made.uri)
    store.fail("put_if_absent", "/snapshot/snapshot-2", when="before",
               act=lambda verb, path: upsert(other, [(1, 100, "theirs")]))  # fmt: skip
    result = upsert(table, [(1, 100, "ours"), (1, 101, "ours")])
    assert result.commit.replans == 1
    assert content(Table.open(made.uri)) == {(1, k): "a" for k in range(20)} | {
        (1, 100): "ours", (1, 101): "ours"}  # fmt: skip


class _Writers:
    """Two batches that were assigned on snapshot 1, of a partition with buckets 0, 1 and 2."""

    def __init__(self, folder: Path) -> None:
        made = filled_table(folder, [(1, k, "a") for k in range(30)])
        self.uri = made.uri
        self.table = Table.open(made.uri)
        self.view = load_view(self.table.metadata, self.table.snapshot)
        self.store = FaultStore(self.table.metadata.store)

    def files(self, bucket: int) -> IndexEntry:
        (entry,) = (e for e in self.view.index if e.bucket == bucket)
        return entry

    def request(self, user: str, places: dict[int, int | None], **more: Any) -> CommitRequest:
        """A batch with rows for some buckets, and a new hash for each that has one."""
        metadata, schema = self.table.metadata, self.view.schema
        data, index = [], []
        for bucket, hash_ in places.items():
            old = self.view.entries[0]
            file = replace(old.file, file_name=f"data-{user}-{bucket}.parquet", min_sequence_number=1000,
                           max_sequence_number=1001)  # fmt: skip
            data.append(
                ManifestEntry(kind=FileKind.ADD, partition=old.partition, bucket=bucket, total_buckets=-1, file=file)
            )
            if hash_ is None:
                continue
            known = [e for e in self.view.index if e.bucket == bucket]
            before = [read_hash_index(metadata, schema, e) for e in known]
            hashes = np.concatenate([*before, np.array([hash_], np.int32)])
            index.append(write_hash_index(metadata, schema, old.partition, bucket, hashes, NewFileNames()))
        assigned = {p: {b: e.file_name for b, e in there.items()} for p, there in self.view.hash_index().items()}
        return CommitRequest(
            commit_user=user, changes=TableChanges(append=tuple(data), append_index=tuple(index)), base_snapshot_id=1,
            assigned_on=assigned, **more,
        )  # fmt: skip

    @property
    def index_files_read(self) -> list[str]:
        return sorted(Path(path).name for verb, path in self.store.calls if verb == "get" and "/index/" in path)

    def commit(self, request: CommitRequest) -> tuple[int, ...]:
        table = Table.open(self.uri)
        table.metadata.store = self.store
        return commit_changes(table.metadata, request).snapshot_ids


def test_hashes_that_only_one_of_them_adds_are_no_conflict(tmp_path: Path) -> None:
    writers = _Writers(tmp_path)
    ours = writers.request("ours", {0: OURS, 7: OURS + 100})
    theirs = writers.request("theirs", {1: THEIRS, 8: THEIRS + 100})
    assert writers.commit(theirs) == (2,)
    assert writers.index_files_read == []
    assert writers.commit(ours) == (3,)
    new = [e.file_name for r in (ours, theirs) for e in r.changes.append_index]
    # Those of both batches, and what ours replaces; nothing of buckets that neither has changed.
    assert writers.index_files_read == sorted([*new, writers.files(0).file_name])
    after = Table.open(writers.uri)
    found = {e.bucket: e.file_name for e in load_view(after.metadata, after.snapshot).index}
    assert found == {2: writers.files(2).file_name} | {
        e.bucket: e.file_name for r in (ours, theirs) for e in r.changes.append_index
    }


@pytest.mark.parametrize("theirs", [{1: BOTH}, {8: BOTH}], ids=["in an old bucket", "in a new bucket"])
@pytest.mark.parametrize("ours", [{0: BOTH}, {7: BOTH}], ids=["ours in an old one", "ours in a new one"])
def test_a_hash_that_both_add_to_different_buckets_is_a_conflict(
    tmp_path: Path, ours: dict[int, int | None], theirs: dict[int, int | None]
) -> None:
    writers = _Writers(tmp_path)
    mine = writers.request("ours", ours)
    assert writers.commit(writers.request("theirs", theirs)) == (2,)
    with pytest.raises(CommitConflictError, match=rf"added to other buckets .*buckets {next(iter(theirs))}\)"):
        writers.commit(mine)


def test_a_bucket_that_both_touch_is_a_conflict(tmp_path: Path) -> None:
    writers = _Writers(tmp_path)
    ours = writers.request("ours", {0: None, 1: None}, check_sequences=False)
    assert writers.commit(writers.request("theirs", {1: THEIRS})) == (2,)
    with pytest.raises(CommitConflictError, match=r"hash index changed .*buckets 1\)"):
        writers.commit(ours)


def test_a_batch_without_new_hashes_reads_no_index_file(tmp_path: Path) -> None:
    writers = _Writers(tmp_path)
    ours = writers.request("ours", {0: None})
    assert writers.commit(writers.request("theirs", {1: THEIRS})) == (2,)
    assert writers.commit(ours) == (3,)
    assert writers.index_files_read == []


def test_where_upkeep_moves_keys_between_buckets_any_change_of_the_index_is_a_conflict(tmp_path: Path) -> None:
    writers = _Writers(tmp_path)
    ours = writers.request("ours", {0: None}, by_partition=True)
    assert writers.commit(writers.request("theirs", {1: THEIRS})) == (2,)
    with pytest.raises(CommitConflictError, match=r"hash index changed .*buckets 1\)"):
        writers.commit(ours)
