"""Which buckets can hold keys: streamed and loaded answers against a dictionary, damaged files, several buckets of one hash."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakeidx.api.table import Table
from lakeidx.errors import NotFoundError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.file_names import NewFileNames
from lakeidx.storage import LocalStore
from lakeidx.table.index_files import index_file_path, known_hashes, read_hash_index, write_hash_index
from lakeidx.table.key_buckets import (
    buckets_by_function,
    find_buckets,
    find_hits,
    hash_entries,
    key_hashes,
)
from tests.kit.small_tables import make_table, rows, upsert

SPEC = {"fields": [{"name": "k", "type": "BIGINT"}], "primaryKeys": ["k"], "options": {"bucket": "-1"}}
VALUES = st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_table(tmp_path_factory.mktemp("t"), spec=SPEC)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(VALUES, max_size=20, unique=True), max_size=4), st.lists(VALUES, max_size=20), st.data())
def test_streamed_and_loaded_answers_are_those_of_a_dictionary(
    table: Table, files: list[list[int]], strangers: list[int], data: st.DataObject
) -> None:
    entries = [
        write_hash_index(table.metadata, table.schema, EMPTY_ROW, b, np.array(h, np.int32), NewFileNames())
        for b, h in enumerate(files)
    ]
    model = {h: b for b, hashes in enumerate(files) for h in hashes}
    known = data.draw(st.lists(st.sampled_from(sorted(model)), max_size=20)) if model else []
    asked = np.array([*strangers, *known], np.int32)
    expected = [model.get(h, -1) for h in asked.tolist()]
    streamed = find_buckets(table.metadata, table.schema, entries, asked)
    assert streamed.of(asked).tolist() == expected
    assert (streamed.files, streamed.rows) == (len(files), sum(map(len, files)))
    assert find_buckets(table.metadata, table.schema, entries, None, skip_damaged=True).of(asked).tolist() == expected


def test_entries_come_from_the_index_manifest_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert hash_entries(table.metadata, None, [EMPTY_ROW]) == {EMPTY_ROW: {}}
    upsert(table, [(p, k, "v") for p in (1, 2) for k in range(25)])
    snapshot = table.snapshot
    assert snapshot is not None
    index = table.metadata.load_index_manifest(snapshot.index_manifest)
    for manifest in table.metadata.data_manifests(snapshot):
        Path(table.paths.manifest_path(manifest.file_name)).unlink()
    fresh = Table.open(table.uri)
    partition = index[0].partition
    found = hash_entries(fresh.metadata, snapshot, [partition])
    assert list(found) == [partition]
    assert list(found[partition]) == sorted(e.bucket for e in index if e.partition == partition) == [0, 1, 2]
    keys = rows([(1, k, None) for k in range(25)])
    hashes = key_hashes(table.schema, keys)
    buckets = find_buckets(fresh.metadata, fresh.schema, list(found[partition].values()), hashes).of(hashes)
    assert np.bincount(buckets).tolist() == [10, 10, 5]


def test_the_bucket_function_takes_the_number_of_buckets_of_then(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "4"})
    keys = rows([(1, k, None) for k in range(50)])
    then, now = (buckets_by_function(table.schema, keys, n) for n in (2, 4))
    assert set(then.tolist()) == {0, 1}
    assert set(now.tolist()) == {0, 1, 2, 3}
    # abs(hash % n), % truncated as in Java.
    hashes = key_hashes(table.schema, keys).tolist()
    assert now.tolist() == [abs(h) % 4 for h in hashes]


def test_files_that_were_read_last_stay_in_the_process(tmp_path: Path) -> None:
    table = make_table(tmp_path, spec=SPEC)
    metadata, schema = table.metadata, table.schema
    stored = [np.arange(b, 3000, 3, dtype=np.int32) * 7 - 9000 for b in range(3)]
    # Java's files are not ascending.
    files = [stored[0], stored[1][::-1].copy(), stored[2]]
    entries = [write_hash_index(metadata, schema, EMPTY_ROW, b, h, NewFileNames()) for b, h in enumerate(files)]
    many, few = np.arange(-9000, 9000, 9, dtype=np.int32), np.array([-9000, -8993, 12, 13, -9000, 11993], np.int32)

    def found(columns: list[NDArray[np.int32]]) -> list[list[int]]:
        hits = find_hits(metadata, schema, entries, columns)
        return [np.intersect1d(h.known, np.concatenate(columns)).tolist() for h in hits]

    def sought(columns: list[NDArray[np.int32]]) -> list[list[int]]:
        asked = {h for c in columns for h in c.tolist()}
        return [[h for h in s.tolist() if h in asked] for s in stored]

    assert found([many]) == sought([many])
    assert metadata.hash_files.nbytes == 4 * 3000
    for entry in entries:
        Path(index_file_path(metadata, schema, entry)).unlink()
    assert found([few[:2], few[2:]]) == sought([few])
    # Another process has none of it, and one that is told of another file of that name takes it for another.
    with pytest.raises(NotFoundError):
        find_hits(Table.open(table.uri).metadata, schema, entries, [few])
    with pytest.raises(NotFoundError):
        find_hits(metadata, schema, [replace(e, row_count=e.row_count + 1) for e in entries], [few])


@pytest.mark.parametrize("waits", [False, True])
def test_threads_are_for_stores_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool) -> None:
    table = make_table(tmp_path, spec=SPEC)
    table.metadata.hash_files.max_bytes = 4 * 700
    hashes = np.arange(300, dtype=np.int32)
    entries = [
        write_hash_index(table.metadata, table.schema, EMPTY_ROW, b, hashes + 300 * b, NewFileNames())
        for b in range(20)
    ]
    readers: set[threading.Thread] = set()
    get = LocalStore.get

    def noted(store: LocalStore, path: str) -> bytes:
        readers.add(threading.current_thread())
        return get(store, path)

    monkeypatch.setattr(LocalStore, "get", noted)
    monkeypatch.setattr(LocalStore, "waits", waits)
    find_hits(table.metadata, table.schema, entries, [np.arange(3000, dtype=np.int32)])
    assert (readers == {threading.current_thread()}) is not waits
    assert table.metadata.hash_files.nbytes == 4 * 600


def test_what_a_batch_adds_is_known_to_the_next_one(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "1000"})
    upsert(table, [(1, k, "old") for k in range(100)])
    upsert(table, [(1, 5, "new"), (1, 100, "new")])
    assert table.metadata.hash_files.nbytes == 4 * (100 + 101)
    snapshot = table.snapshot
    assert snapshot is not None
    (entry,) = table.metadata.load_index_manifest(snapshot.index_manifest)
    kept = known_hashes(table.metadata, table.schema, entry)
    assert kept.tolist() == sorted(read_hash_index(table.metadata, table.schema, entry).tolist())
    assert set(kept.tolist()) == set(key_hashes(table.schema, rows([(1, k, None) for k in range(101)])).tolist())
