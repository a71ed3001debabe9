"""A real table as key indexes see it: snapshots told apart, what happened since, commits known after expiry."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.key_index.options import INDEX_TYPES, IndexOptions
from lakeidx.key_index.port import ExternalState
from lakeidx.key_index.registry import index_types, make_locator
from lakeidx.key_index.table_view import SnapshotTable, deletes_hide
from tests.kit.small_tables import table_spec
from tests.kit.upserts import upsert_table


@pytest.fixture
def handle(tmp_path: Path) -> Table:
    spec = table_spec(
        "p STRING NOT NULL, id BIGINT NOT NULL, v INT",
        ["p", "id"],
        partitions=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"},
    )
    return Table.create(str(tmp_path / "db.db" / "t"), spec)


def _upsert(handle: Table, batch: str, ids: list[int], *, overwrite: str | None = None) -> None:
    rows = pa.table({"p": [f"p{i % 2}" for i in ids], "id": ids, "v": pa.array(ids, pa.int32())})
    upsert_table(make_context(handle.metadata, batch, overwrite=overwrite), rows)


def _view(handle: Table, tmp_path: Path) -> SnapshotTable:
    return SnapshotTable(handle.metadata, handle.metadata.latest_snapshot(), index_dir=str(tmp_path / "index"))


def test_what_happened_since(handle: Table, tmp_path: Path) -> None:
    empty = _view(handle, tmp_path)
    assert (empty.snapshot_id, list(empty.files(None))) == (None, [])
    _upsert(handle, "one", [1, 2])
    _upsert(handle, "two", [3])
    view = _view(handle, tmp_path)
    assert view.snapshot_id is not None
    assert view.kept_since(1)
    assert view.snapshot_token(1) not in (None, view.snapshot_token(view.snapshot_id))
    assert view.snapshot_token(99) is None
    _upsert(handle, "three", [4], overwrite="table")
    after = _view(handle, tmp_path)
    assert not after.kept_since(view.snapshot_id)
    assert after.kept_since(after.snapshot_id or 0)
    assert after.table_id == view.table_id


def test_commits_are_known_after_their_snapshot(handle: Table, tmp_path: Path) -> None:
    _upsert(handle, "one", [1])
    snapshot = handle.metadata.latest_snapshot()
    assert snapshot is not None
    user = snapshot.commit_user
    assert _view(handle, tmp_path).is_committed([user, "nobody", user]) == [True, False, True]
    # Seen once, it is noted: the snapshot file may go.
    Path(handle.paths.snapshot_path(snapshot.id)).unlink()
    _upsert(handle, "two", [2])
    assert _view(handle, tmp_path).is_committed([user, "nobody"]) == [True, False]
    assert _view(handle, tmp_path).is_committed([]) == []


def test_partitions_as_paths(handle: Table, tmp_path: Path) -> None:
    _upsert(handle, "one", [1, 2])
    view = _view(handle, tmp_path)
    texts = {view.partition_text(f.partition) for f in view.files(None)}
    assert texts == {"p=p0", "p=p1"}
    for file in view.files(None):
        assert f"/{view.partition_text(file.partition)}/bucket-{file.bucket}/" in file.path
        assert list(view.files([file.partition])) == [f for f in view.files(None) if f.partition == file.partition]


def test_files_are_found_without_the_index_manifest(handle: Table, tmp_path: Path) -> None:
    _upsert(handle, "one", [1, 2])
    snapshot = handle.metadata.latest_snapshot()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    Path(handle.paths.manifest_path(snapshot.index_manifest)).unlink()
    metadata = Table.open(str(handle.paths.root)).metadata
    view = SnapshotTable(metadata, metadata.latest_snapshot(), index_dir=str(tmp_path / "index"))
    files = view.files(None)
    assert len(files) == 2
    assert list(view.files([files[0].partition])) == [files[0]]
    assert [f.path for f in view.files_at(snapshot.id)] == [f.path for f in files]


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ({}, True),
        ({"ignore-delete": "true"}, False),
        ({"merge-engine": "first-row"}, False),
        ({"merge-engine": "partial-update"}, False),
        ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, True),
        ({"merge-engine": "aggregation"}, False),
        ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, True),
    ],
)
def test_engines_whose_deletes_hide(options: dict[str, str], hides: bool) -> None:
    assert deletes_hide(IndexOptions(options)) is hides


def test_what_each_type_is() -> None:
    kinds = [t.name for t in index_types()]
    assert kinds == [*INDEX_TYPES, "hbase"]
    for kind in kinds:
        locator = make_locator(IndexOptions({"index.type": kind}))
        assert (locator is None) == (kind == "hash")
        if locator is not None:
            assert locator.is_global == (kind.startswith("global-") or kind in ("state", "inmemory", "hbase"))
        assert isinstance(locator, ExternalState) == (kind in ("state", "inmemory", "hbase"))
