"""Lookups and lookup joins of a table on a real S3 server: local copies of lookup files, their bound, a full disk, damage."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeidx.api import Table
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.spark import lookup_join
from lakeidx.tasks.runner import LocalRunner
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import table_spec
from tests.kit.spark_fixture import spark

__all__ = ["s3_server", "spark"]
pytestmark = pytest.mark.s3

IDS = list(range(400))
KEYS = pa.table({"id": [*IDS, 1000]})
VALUES = [*(f"v{i}" for i in IDS), None]


def make_table(server: S3Server, monkeypatch: pytest.MonkeyPatch, store_type: str) -> Table:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    spec = table_spec("id BIGINT, v STRING", ["id"], options={"bucket": "4", "lookup.store.type": store_type})
    table = Table.create(f"{server.fresh_uri('wh')}/d.db/t", spec, server.storage_options)
    table.upsert(pa.table({"id": IDS, "v": VALUES[:-1]}))
    report = run_lookup_store(table.metadata, LocalRunner(2))
    assert report.built == 4
    return table


def copies(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix == ".lookup")


@pytest.mark.parametrize("store_type", ["sort", "hash"])
def test_files_are_copied_once_and_kept(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_type: str
) -> None:
    table = make_table(s3_server, monkeypatch, store_type)
    for copied in (4, 0):
        cache = LookupFileCache(str(tmp_path))
        lookup = TableLookup(Table.open(table.uri).metadata, files=cache)
        assert lookup.lookup(KEYS).rows.column("v").to_pylist() == VALUES
        assert (cache.downloads, lookup.metrics.lookup_files, lookup.metrics.data_files) == (copied, 4, 0)
    table.upsert(pa.table({"id": [5], "v": ["new"]}))
    assert run_lookup_store(table.metadata, LocalRunner(1)).built == 1
    assert lookup.lookup(pa.table({"id": [5, 6]})).rows.column("v").to_pylist() == ["new", "v6"]
    assert len(copies(tmp_path)) == 5


def test_the_bound_holds_and_answers_stay_right(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(s3_server, monkeypatch, "sort")
    TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "all"))).lookup(KEYS)
    bound = sum(p.stat().st_size for p in copies(tmp_path / "all")) - 1
    cache = LookupFileCache(str(tmp_path / "few"), max_bytes=bound)
    for _ in range(3):
        assert TableLookup(table.metadata, files=cache).lookup(KEYS).rows.column("v").to_pylist() == VALUES
        assert sum(p.stat().st_size for p in copies(tmp_path / "few")) <= bound
    assert cache.downloads > 4
    assert cache.evictions > 0


@pytest.mark.parametrize("fails", [1, 1000])
def test_a_full_disk_evicts_or_is_reported(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: int
) -> None:
    table = make_table(s3_server, monkeypatch, "sort")
    cache = LookupFileCache(str(tmp_path))
    TableLookup(table.metadata, files=cache).lookup(pa.table({"id": [7]}))
    (held,) = copies(tmp_path)
    left, real = [fails], os.write

    def full(fd: int, data: bytes) -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "no space")
        return real(fd, data)

    monkeypatch.setattr("lakeidx.lookup.scratch_file.os.write", full)
    lookup = TableLookup(table.metadata, files=cache)
    assert lookup.lookup(KEYS).rows.column("v").to_pylist() == VALUES
    if fails == 1:
        # The older copy had to go before there was room; it may have come back since.
        assert cache.evictions >= 1
        assert lookup.metrics.data_files == 0
    else:
        assert not held.exists() or lookup.metrics.lookup_files == 1
        assert lookup.metrics.data_files >= 3
        assert "is full" in caplog.text


def test_damage_of_the_stored_file_is_found(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(s3_server, monkeypatch, "sort")
    path = next(f.path for f in table.store.walk(f"{table.uri}/lookup") if f.name.endswith(".lookup"))
    good = table.store.get(path)
    for number, at in enumerate((3, len(good) // 2, len(good) - 20)):
        table.store.put(path, good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(CorruptFileError):
            TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / str(number)))).lookup(KEYS)
    table.store.put(path, good[:-1])
    with pytest.raises(CorruptFileError, match="bytes"):
        TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "short"))).lookup(KEYS)
    table.store.delete(path)
    lookup = TableLookup(table.metadata, files=LookupFileCache(str(tmp_path / "gone")))
    assert lookup.lookup(KEYS).rows.column("v").to_pylist() == VALUES
    assert lookup.metrics.data_files == 1


@pytest.mark.spark
@pytest.mark.parametrize("files", [2, 100])
def test_executors_of_a_join_keep_bounded_copies(
    spark: SparkSession, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    table = make_table(s3_server, monkeypatch, "sort")
    sizes = [f.size for f in table.store.walk(f"{table.uri}/lookup") if f.name.endswith(".lookup")]
    bound = files * max(sizes)
    frame = spark.createDataFrame([(i,) for i in [*IDS, 1000]], "id LONG")
    for text in ("", "new"):
        if text:
            # A newer snapshot, seen by workers that have the older one open.
            table.upsert(pa.table({"id": [5], "v": ["new"]}))
            assert run_lookup_store(table.metadata, LocalRunner(1)).reused == 4
        joined = lookup_join(frame, table, ["id"], ["v"], cache_dir=str(tmp_path), cache_bytes=bound)
        found = {row.id: row.v for row in joined.collect()}
        assert found == {i: "new" if i == 5 and text else v for i, v in zip([*IDS, 1000], VALUES, strict=True)}
        assert sum(p.stat().st_size for p in copies(tmp_path)) <= bound
        assert (len(copies(tmp_path)) == (5 if text else 4)) == (files == 100)
