"""Rows that another writer deleted by deletion vector while a compaction ran came back: only file names were compared."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CommitConflictError
from lakeidx.format.deletion_vector import encode_deletion_vectors
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.paths import NewFileNames
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.index_files import deletion_vectors, read_deletion_vector
from lakeidx.table.view import DELETION_VECTORS, data_file_path, load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import SPEC, content, upsert

VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, Mapping[str, Any]] = {
    "fixed buckets": {**SPEC, "options": {**VECTORS, "bucket": "1"}},
    "dynamic buckets": {**SPEC, "options": {**VECTORS, "bucket": "-1"}},
    "append table": {**SPEC, "primaryKeys": [], "options": {**VECTORS, "bucket": "-1"}},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/wh/d.db/t", KINDS[request.param])
    for k in range(0, 6, 2):
        upsert(made, [(1, k, "row"), (1, k + 1, "row")])
    if made.schema.primary_keys:
        compact(made)
    return made


def compact(table: Table) -> CompactionReport:
    return run_compaction(table.metadata, LocalRunner(1), full=True, sleep=lambda _: None)


def delete_by_vector(table: Table, key: int) -> None:
    """Delete a key as Java does once the new level-0 file is compacted away: a vector, and the same data files."""
    metadata = Table.open(table.uri).metadata
    schema = metadata.latest_schema()
    view = load_view(metadata, metadata.latest_snapshot())
    entry, position = _find(metadata, view.entries, key)
    marks = {
        name: set(read_deletion_vector(metadata, schema, p, b, v))
        for (p, b, name), v in deletion_vectors(view.index).items()
        if (p, b) == (entry.partition, entry.bucket)
    }
    marks.setdefault(entry.file.file_name, set()).add(position)
    data, ranges = encode_deletion_vectors(marks)
    name = NewFileNames().index_name()
    metadata.store.put(metadata.paths.index_file({"p": 1}, entry.bucket, name), data)
    new = IndexEntry(
        kind=FileKind.ADD, partition=entry.partition, bucket=entry.bucket, index_type=DELETION_VECTORS, file_name=name,
        file_size=len(data), row_count=len(ranges), dv_ranges=tuple(ranges),
    )  # fmt: skip
    old = tuple(replace(e, kind=FileKind.DELETE) for e in view.index if e.index_type == DELETION_VECTORS)
    commit_changes(
        metadata, CommitRequest(commit_user=f"java-{uuid.uuid4()}", changes=TableChanges(append_index=(*old, new)))
    )


def _find(metadata: Any, entries: Any, key: int) -> tuple[ManifestEntry, int]:
    schema = metadata.latest_schema()
    for entry in entries:
        path = data_file_path(metadata, entry)
        found = pa.concat_tables(read_data_file(metadata.store, path, entry.file, schema, schema, ["k"]))
        keys = found.column("k").to_pylist()
        if key in keys:
            return entry, keys.index(key)
    raise AssertionError(f"no key {key}")


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["no vector before", "a vector before"])
def test_deleted_rows_stay_deleted(table: Table, before: bool) -> None:
    expected = {(1, k): "row" for k in range(6)}
    if before:
        delete_by_vector(table, 5)
        del expected[(1, 5)]
    store = FaultStore(table.store)
    fault = store.fail("put_if_absent", "snapshot-", act=lambda *_: delete_by_vector(table, 2))
    if table.schema.primary_keys and not before:
        upsert(table, [(1, 0, "new")])
        expected[(1, 0)] = "new"
    report = compact(Table(store, table.paths))
    del expected[(1, 2)]
    assert (fault.hits, report.rounds) == (1, 2)
    assert content(Table.open(table.uri)) == expected


@pytest.mark.slow
def test_an_index_file_that_is_not_live_is_not_removed(table: Table) -> None:
    delete_by_vector(table, 2)
    metadata = table.metadata
    (old,) = (e for e in load_view(metadata, metadata.latest_snapshot()).index if e.index_type == DELETION_VECTORS)
    delete_by_vector(table, 3)
    gone = replace(old, kind=FileKind.DELETE)
    with pytest.raises(CommitConflictError, match="is no longer live"):
        commit_changes(metadata, CommitRequest(commit_user="u", changes=TableChanges(compact_index=(gone,))))


def test_a_schema_that_changes_during_a_compaction_plans_again(table: Table) -> None:
    delete_by_vector(table, 2)

    def change(verb: str, path: str) -> None:
        newer = replace(table.schema, id=1, options={**table.schema.options, "comment-on": "b"})
        table.store.put(table.paths.schema_path(1), encode_schema(newer))

    store = FaultStore(table.store)
    fault = store.fail("open_output", "bucket-", act=change)
    report = compact(Table(store, table.paths))
    assert (fault.hits, report.rounds) == (1, 2)
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    assert {e.file.schema_id for e in view.entries} == {1}
    assert len(content(Table.open(table.uri))) == 5
