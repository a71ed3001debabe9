"""A commit's requests follow its manifests, not its data files: none of them is listed or looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakeidx.api.table import Table
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.view import load_view
from tests.kit.metered_store import MeteredStore
from tests.kit.small_tables import filled_table

NEW_FILES = 500


def test_five_hundred_new_files_are_not_listed_one_by_one(tmp_path: Path) -> None:
    made = filled_table(tmp_path, [(1, k, "a") for k in range(10)])
    before = load_view(made.metadata, made.snapshot).entries[0]
    files = [
        replace(before, file=replace(before.file, file_name=f"data-new-{i}.parquet", min_sequence_number=1000 + i,
                                     max_sequence_number=1000 + i))
        for i in range(NEW_FILES)
    ]  # fmt: skip
    table = Table.open(made.uri)
    store = MeteredStore(table.metadata.store)
    table.metadata.store = store
    request = CommitRequest(commit_user="batch", changes=TableChanges(append=tuple(files)), base_snapshot_id=1)
    commit_changes(table.metadata, request)
    counts = {verb: count.requests for verb, count in store.counts.items()}
    assert counts["list"] <= 5, counts
    assert counts.get("info", 0) + counts.get("size", 0) + counts.get("exists", 0) <= 5, counts
    assert sum(counts.values()) <= 25, counts
    store.reset()
    view = load_view(table.metadata, table.snapshot)
    assert {e.file.file_name for e in view.entries} >= {e.file.file_name for e in files}
    assert store.total.requests <= 10, store.counts
