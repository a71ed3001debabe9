"""A landing file that is written again while a batch reads it: some rows were of before and some of after, and were committed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.stages import ingest
from lakeidx.batch.upsert import make_context, upsert_files
from lakeidx.errors import InvalidInputError
from lakeidx.landing.key_rows import read_key_rows
from lakeidx.landing.read import LandingOptions, read_landing
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import SPEC, content, make_table

__all__ = ["s3_server"]
LONG_AGO = 1_500_000_000


def written(path: Path, value: str, *, ints: pa.DataType | None = None) -> None:
    """The file, in the format of its ending, with a value in every row; of the same size for values of the same length."""
    rows = {"p": [1] * 40, "k": list(range(40)), "v": [value] * 40}
    table = pa.table(rows, schema=pa.schema([("p", pa.int32()), ("k", ints or pa.int64()), ("v", pa.string())]))
    if path.suffix == ".csv":
        path.write_text("p,k,v\n" + "".join(f"1,{k},{value}\n" for k in range(40)))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"p": 1, "k": k, "v": value}) + "\n" for k in range(40)))
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path), compression="uncompressed")


def land(store: ObjectStore, table: Table, file: str, **options: Any) -> None:
    watched = Table(store, table.paths)
    upsert_files(make_context(watched.metadata, "b", runner=LocalRunner(2)), [file], LandingOptions(**options))


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "parquet"])
def test_the_batch_is_refused(kind: str, shares: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shares:
        monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    table, file = make_table(tmp_path), tmp_path / f"f.{kind}"
    # Parquet whose keys have another type is cast, not staged by reference.
    written(file, "old", ints=pa.int32())
    os.utime(file, (LONG_AGO, LONG_AGO))
    store = FaultStore(table.store)
    store.fail("open_input", f"f.{kind}", when="after", act=lambda *_: written(file, "new", ints=pa.int32()))
    with pytest.raises(InvalidInputError, match="the landing file changed while it was read; run the batch again"):
        land(store, table, str(file))
    assert table.metadata.snapshot_ids() == []
    # What the message says is true: nothing of the first run is left, and the id is free.
    land(table.store, table, str(file))
    assert set(content(table).values()) == {"new"}


def test_what_the_change_broke_is_not_called_damage(tmp_path: Path) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.parquet"
    written(file, "old", ints=pa.int32())
    store = FaultStore(table.store)
    store.fail("open_input", "f.parquet", when="after", act=lambda *_: file.write_bytes(b"half a file"))
    with pytest.raises(InvalidInputError, match="changed while it was read"):
        land(store, table, str(file))


def test_rows_staged_by_reference_are_looked_at_after_each_reading(tmp_path: Path) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.parquet"
    written(file, "old")
    os.utime(file, (LONG_AGO, LONG_AGO))
    opened = FaultStore(table.store)
    land(opened, make_table(tmp_path / "other"), str(file))
    for skip in range(opened.calls.count(("open_input", str(file)))):
        written(file, "old")
        # Another time for each run: the footer of a file that is the same is kept.
        os.utime(file, (LONG_AGO + 1 + skip,) * 2)
        fresh = make_table(tmp_path / f"t{skip}")
        store = FaultStore(fresh.store)
        store.fail("open_input", "f.parquet", when="after", act=lambda *_: written(file, "new"), skip=skip)
        with pytest.raises(InvalidInputError, match="the landing file changed"):
            land(store, fresh, str(file))
        assert fresh.metadata.snapshot_ids() == []


def test_keys_of_a_file_that_changes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.csv"
    written(file, "old")

    def changing(*arguments: Any) -> Iterator[Any]:
        for piece in read(*arguments):
            written(file, "longer")
            yield piece

    read = read_landing
    monkeypatch.setattr("lakeidx.landing.key_rows.read_landing", changing)
    with pytest.raises(InvalidInputError, match="the file changed while it was read; run this again"):
        read_key_rows(str(file), table.schema.fields[:2])


@pytest.mark.s3
def test_an_object_put_again_within_the_second_of_its_time(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    table = Table.create(f"{s3_server.fresh_uri('wh')}/d.db/t", SPEC)
    written(old := tmp_path / "old.csv", "old")
    written(new := tmp_path / "new.csv", "new")
    path, plain = f"{table.uri}-landing/f.csv", open_store(table.uri)
    for _ in range(3):
        plain.put(path, old.read_bytes())
        store = FaultStore(plain)
        store.fail("open_input", "f.csv", when="after", act=lambda *_: plain.put(path, new.read_bytes()))
        with pytest.raises(InvalidInputError, match="the landing file changed while it was read"):
            land(store, table, path)
    assert table.metadata.snapshot_ids() == []
