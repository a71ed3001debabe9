"""Point lookups: clear errors, damage, caches, schema changes, the check against a scan, the command."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.api.inspect.files import describe_lookup_file
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.lookup import file_cache as file_cache_module
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.hash_store.reader import HashLookupStoreReader
from lakeidx.lookup.listing import LISTING_NAME, decode_listing, encode_listing
from lakeidx.lookup.point import table_lookup as table_lookup_module
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.lookup.sort_store.reader import SortLookupStoreReader
from lakeidx.maintenance.lookup_store import clean_lookup_files, run_lookup_store
from lakeidx.maintenance.staging_cleanup import clean_orphans
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.storage.local import LocalStore
from lakeidx.table.index_files import index_file_path
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.limits import HANGS_SECONDS

FIELDS = [{"name": "d", "type": "STRING"}, {"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]


def make_table(folder: Path, **options: str) -> Table:
    spec = {
        "fields": FIELDS, "primaryKeys": ["d", "id"], "partitionKeys": ["d"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "100"} | options,
    }  # fmt: skip
    table = Table.create(f"{folder}/w/db.db/t", spec)
    table.upsert(rows(range(300)))
    return table


def rows(ids: range, text: str = "v") -> pa.Table:
    return pa.table({"d": ["a/b" if i % 3 else "ü" for i in ids], "id": list(ids), "v": [f"{text}{i}" for i in ids]})


def build(table: Table, **options: str) -> int:
    return run_lookup_store(table.metadata, LocalRunner(1)).built


def lookup_files(table: Table) -> list[Path]:
    return sorted(p for p in Path(table.uri, "lookup").rglob("*") if p.is_file() and not p.name.startswith("listing"))


def test_rows_in_the_order_of_the_keys(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    build(table)
    got = table.lookup(pa.table({"id": [5, 5, 1000, 2, None, 3], "d": ["a/b", "ü", "a/b", "a/b", "a/b", None]}))
    assert got.column("_FOUND").to_pylist() == [True, False, False, True, False, False]
    assert got.column("v").to_pylist() == ["v5", None, None, "v2", None, None]
    assert got.column("id").to_pylist() == [5, None, None, 2, None, None]
    assert table.lookup(rows(range(0)).select(["d", "id"])).num_rows == 0
    assert pickle.loads(pickle.dumps(table)).lookup(rows(range(1)).select(["d", "id"])).num_rows == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"id": [1]}, "'d' is missing"),
        ({"d": ["x"], "id": [1], "v": ["x"]}, "'v' is not one of them"),
        ({"d": ["x"], "id": ["one"]}, "'id' is BIGINT"),
        ({"d": ["x"], "id": [1.5]}, "'id' is BIGINT"),
    ],
)
def test_wrong_keys_are_named(tmp_path: Path, keys: dict[str, list[object]], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make_table(tmp_path).lookup(pa.table(keys))


def test_the_first_keys_are_looked_up_in_the_files_of_the_hash_index(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"dynamic-bucket.target-row-num": "1000"})
    table.upsert(rows(range(300, 6000)))

    def indexed(lookup: TableLookup) -> list[bool]:
        assert lookup._state is not None
        return [p.hashes is not None for p in lookup._state.partitions.values()]

    first, second = range(0, 12, 3), range(1500, 1512, 3)
    lookup = TableLookup(Table.open(table.uri).metadata)
    for ids, whole in ((first, False), (second, True), (first, True)):
        found = lookup.lookup(rows(range(ids.start, ids.stop)).select(["d", "id"]))
        assert found.rows.column("v").to_pylist() == [f"v{i}" for i in range(ids.start, ids.stop)]
        assert indexed(lookup) == [whole, whole]
    assert lookup.metrics.not_indexed == 0
    # A snapshot with other index files.
    table.upsert(rows(range(6000, 6003)))
    for ids, whole in ((range(6000, 6003), False), (range(5998, 6001), True)):
        found = lookup.lookup(rows(ids).select(["d", "id"]))
        assert found.rows.column("v").to_pylist() == [f"v{i}" for i in ids]
        assert indexed(lookup)[0] is whole


def test_a_bucket_whose_hash_index_is_damaged_may_hold_any_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(tmp_path, **{"dynamic-bucket.target-row-num": "1000"})
    table.upsert(rows(range(300, 6000)))
    snapshot = table.metadata.latest_snapshot()
    assert snapshot is not None
    entries = [e for e in table.metadata.load_index_manifest(snapshot.index_manifest) if e.bucket == 1]
    paths = [Path(index_file_path(table.metadata, table.schema, e)) for e in entries]
    for path in paths:
        path.write_bytes(path.read_bytes()[:-4])
    lookup = TableLookup(Table.open(table.uri).metadata)
    for ids in (range(2500, 2550), range(100, 150), range(3000, 3050)):
        found = lookup.lookup(rows(ids).select(["d", "id"]))
        assert found.rows.column("v").to_pylist() == [f"v{i}" for i in ids]
    # Named by the call that streamed it, and by the one that loaded all; known since.
    assert [caplog.text.count(str(path)) for path in paths] == [2, 2]


def test_missing_keys_end_at_the_hash_index(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    build(table)
    lookup = TableLookup(table.metadata)
    assert not lookup.lookup(pa.table({"d": ["a/b"] * 500, "id": range(10_000, 10_500)})).found.any()
    assert lookup.metrics.not_indexed == 500
    assert lookup.metrics.lookup_files == 0


def test_a_lookup_file_that_is_gone_is_answered_from_the_data_file_and_built_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert build(table) >= 3
    gone = lookup_files(table)[0]
    gone.unlink()
    lookup = TableLookup(table.metadata)
    assert lookup.lookup(rows(range(300)).select(["d", "id"])).found.all()
    assert lookup.metrics.data_files == 1
    assert build(table) == 1
    assert gone.exists()


def test_orphan_cleaning_and_expiry_know_lookup_files(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    build(table)
    there = lookup_files(table)
    clean_orphans(table.metadata, now_ms=1 << 50, older_than_ms=0, dry_run=False)
    assert clean_lookup_files(table.metadata) == ()
    assert lookup_files(table) == there
    stray = there[0].with_name("data-0-gone.parquet.12.value.v1.lookup")
    stray.write_bytes(b"x")
    assert [f.name for f in clean_lookup_files(table.metadata, dry_run=True)] == [stray.name]
    assert stray.exists()
    clean_lookup_files(table.metadata)
    assert not stray.exists()
    assert lookup_files(table) == there


class RemoteStore:
    """A store that is not on this disk."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("store_type", ["sort", "hash"])
def test_the_cache_of_remote_files_keeps_its_bound(tmp_path: Path, store_type: str) -> None:
    table = make_table(tmp_path, **{"lookup.store.type": store_type})
    build(table)
    table.metadata.store = RemoteStore(table.metadata.store)  # type: ignore[assignment]
    bound = sum(p.stat().st_size for p in lookup_files(table)) - 1
    cache = LookupFileCache(str(tmp_path / "cache"), max_bytes=bound)
    keys = rows(range(300)).select(["d", "id"])
    assert TableLookup(table.metadata, files=cache).lookup(keys).found.all()
    assert cache.downloads == sum(p.suffix == ".lookup" for p in lookup_files(table)) > 2
    assert cache.evictions > 0
    assert sum(p.stat().st_size for p in (tmp_path / "cache").iterdir() if p.name != ".tally") <= bound


def test_the_cache_is_counted_when_it_may_be_full_not_for_each_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    build(table)
    table.metadata.store = RemoteStore(table.metadata.store)  # type: ignore[assignment]
    folder, keys = tmp_path / "cache", rows(range(300)).select(["d", "id"])
    counts: list[Path] = []
    real = os.scandir

    def counting(path: Any) -> Any:
        counts.extend([folder] if Path(path) == folder else [])
        return real(path)

    monkeypatch.setattr(os, "scandir", counting)

    def copy_all(max_bytes: int) -> LookupFileCache:
        """Copy what is not there, as a process does that has not counted anything."""
        counts.clear()
        cache = LookupFileCache(str(folder), max_bytes=max_bytes)
        assert TableLookup(table.metadata, files=cache).lookup(keys).found.all()
        return cache

    total = sum(p.stat().st_size for p in lookup_files(table))
    assert (copy_all(2 * total).downloads > 2, len(counts)) == (True, 1)
    for copied in folder.glob("*.lookup"):
        copied.unlink()
    # What was removed still counts, and fills the bound.
    assert (copy_all(2 * total).evictions, len(counts)) == (0, 0)
    for copied in folder.glob("*.lookup"):
        copied.unlink()
    assert (copy_all(2 * total).evictions, len(counts)) == (0, 1)
    (folder / ".tally").write_text("12a")
    next(folder.glob("*.lookup")).unlink()
    assert (copy_all(2 * total).evictions, len(counts)) == (0, 1)


@pytest.mark.parametrize("store_type", ["sort", "hash"])
def test_a_file_above_the_bound_is_still_used(tmp_path: Path, store_type: str) -> None:
    table = make_table(tmp_path, **{"lookup.store.type": store_type})
    build(table)
    table.metadata.store = RemoteStore(table.metadata.store)  # type: ignore[assignment]
    lookup = TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "cache"), max_bytes=1))
    assert lookup.lookup(rows(range(300)).select(["d", "id"])).found.all()
    assert lookup.metrics.data_files == 0
    assert sum(p.suffix == ".lookup" for p in (tmp_path / "cache").iterdir()) == 1


def test_unfinished_copies_count_and_old_ones_go(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    build(table)
    table.metadata.store = RemoteStore(table.metadata.store)  # type: ignore[assignment]
    folder = tmp_path / "cache"
    folder.mkdir()
    for name, seconds in (("others.tmp", 0), ("left.tmp", 7200)):
        (folder / name).write_bytes(bytes(10_000))
        now = (folder / name).stat().st_mtime
        os.utime(folder / name, (now - seconds, now - seconds))
    sizes = [p.stat().st_size for p in lookup_files(table)]
    cache = LookupFileCache(str(folder), max_bytes=10_000 + max(sizes))
    assert TableLookup(table.metadata, files=cache).lookup(rows(range(300)).select(["d", "id"])).found.all()
    assert sorted(p.name for p in folder.glob("*.tmp")) == ["others.tmp"]
    # The bound is one of copies: the tally of them is a file beside them.
    assert sum(p.stat().st_size for p in folder.iterdir() if p.name != ".tally") <= cache.max_bytes


@pytest.mark.parametrize("fails", [1, 1000])
def test_a_full_disk_evicts_or_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: int
) -> None:
    table = make_table(tmp_path)
    build(table)
    table.metadata.store = RemoteStore(table.metadata.store)  # type: ignore[assignment]
    left = [fails]
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "no space")
        return real(fd, data)

    monkeypatch.setattr("lakeidx.lookup.scratch_file.os.write", full)
    lookup = TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "cache")))
    assert lookup.lookup(rows(range(300)).select(["d", "id"])).found.all()
    assert (lookup.metrics.data_files > 0) == (fails > 1)
    assert ("disk" in caplog.text) == (fails > 1)
    assert file_cache_module.DEFAULT_DISK_BYTES > 0


def test_check_finds_a_lookup_file_of_other_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    build(table)
    assert check_lookup_agrees(table, sample_rows=100).passed
    listings = {path: decode_listing(path.read_bytes()) for path in Path(table.uri, "lookup").rglob(LISTING_NAME)}
    found = {name: stored for files in listings.values() for name, stored in files.items()}
    other = dict(zip(sorted(found), sorted(found, reverse=True), strict=True))
    for path, files in listings.items():
        path.write_bytes(encode_listing({n: dataclasses.replace(found[other[n]], data_file=n) for n in files}))
    result = check_lookup_agrees(Table.open(table.uri), sample_rows=100)
    assert not result.passed
    assert result.metrics["keys_missing"] > 0
    assert result.sample


def test_listing_refuses_what_is_none() -> None:
    assert decode_listing(encode_listing({})) == {}
    evil = {"data_file": "x", "path": "../../etc/x", "schema_id": 0, "processor": "value", "store_type": "sort",
            "size": 1, "entries": 1, "checksum": 1, "side_files": []}  # fmt: skip
    with pytest.raises(CorruptFileError, match="leads out"):
        decode_listing(json.dumps({"version": 2, "files": [evil]}).encode())


@pytest.mark.parametrize("bucket", ["-1", "3"])
def test_keys_of_a_bucket_have_one_shard(tmp_path: Path, bucket: str) -> None:
    table = make_table(tmp_path, bucket=bucket)
    keys = rows(range(300)).select(["d", "id"])
    shards = TableLookup(table.metadata).shards(keys)
    scan = table.scan()
    of_bucket = []
    for unit in scan.plan.buckets:
        held = pa.concat_tables(list(scan.read_bucket(unit))).select(["d", "id"]).to_pylist()
        of_bucket.append({(row["d"], row["id"]) for row in held})
    assert len(of_bucket) >= 3
    found = [{shards[i] for i, row in enumerate(keys.to_pylist()) if (row["d"], row["id"]) in b} for b in of_bucket]
    assert all(len(numbers) == 1 for numbers in found)
    assert len(set.union(*found)) == len(of_bucket)
    missing = TableLookup(table.metadata).shards(pa.table({"d": ["ü", None, "gone"], "id": [10**9, 3, 1]}))
    assert missing.tolist()[1:] == [-1, -1]
    assert (missing[0] == -1) == (bucket == "-1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "codecs", "largest"),
    [
        ({}, {"none"}, 16 << 10),
        ({"lookup.cache-spill-compression": "zstd"}, {"zstd"}, 16 << 10),
        ({"cache-page-size": "2 kb"}, {"none"}, 2 << 10),
    ],
)
def test_blocks_are_small_and_plain_unless_the_table_says_otherwise(
    tmp_path: Path, options: dict[str, str], codecs: set[str], largest: int
) -> None:
    table = make_table(tmp_path, **{"dynamic-bucket.target-row-num": "100000", **options})
    table.upsert(rows(range(5000), "some text that goes on and on and on and on"))
    build(table)
    blocks = [
        b
        for p in lookup_files(table)
        for b in describe_lookup_file(LocalStore(), str(p))["blocks"]
        if b["entries"] > 100 or largest < 4096
    ]
    assert {b["compression"] for b in blocks} == codecs
    assert largest * 0.9 < max(b["body_size"] for b in blocks) < largest * 1.1


@pytest.mark.parametrize("store_type", ["sort", "hash"])
def test_buckets_are_looked_up_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_type: str) -> None:
    options = {
        "lookup.store.type": store_type, "lookup.cache-spill-compression": "zstd", "cache-page-size": "1 kb",
    }  # fmt: skip
    table = make_table(tmp_path, **options)
    build(table)
    asking: set[str] = set()
    two_ask = threading.Event()
    reader: Any = {"sort": SortLookupStoreReader, "hash": HashLookupStoreReader}[store_type]
    lookup_many = reader.lookup_many

    def noted(self: Any, keys: RowBytes) -> Any:
        asking.add(threading.current_thread().name)
        if len(asking) > 1:
            two_ask.set()
        # Else one quick thread may take all buckets.
        two_ask.wait(HANGS_SECONDS)
        return lookup_many(self, keys)

    monkeypatch.setattr(reader, "lookup_many", noted)
    monkeypatch.setattr(table_lookup_module, "available_cores", lambda: 3)
    lookup = TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "cache")))
    expected = rows(range(300))
    answer = lookup.lookup(expected.select(["d", "id"]))
    assert answer.found.all()
    assert answer.rows.select(["d", "id", "v"]).to_pydict() == expected.to_pydict()
    assert two_ask.is_set()
