"""Landing folders through fsspec: its store in memory, and a web server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import fsspec
import pytest

from lakeidx import Table
from lakeidx.errors import NotFoundError, UnsupportedError
from lakeidx.storage import LocalStore
from lakeidx.storage.landing_folders import open_landing


@pytest.fixture
def folder() -> Iterator[str]:
    fs = fsspec.filesystem("memory")
    name = f"/landing-{uuid.uuid4().hex}"
    fs.pipe(f"{name}/a.csv", b"id,v\n1,x\n2,y\n")
    fs.pipe(f"{name}/sub/b.csv", b"id,v\n3,z\n")
    yield f"memory:/{name}"
    fs.rm(name, recursive=True)


def test_what_a_folder_holds(folder: str) -> None:
    store = open_landing(folder)
    assert [(f.name, f.size, f.is_dir, f.path) for f in store.list(folder)] == [
        ("a.csv", 13, False, f"{folder}/a.csv"),
        ("sub", 0, True, f"{folder}/sub"),
    ]
    assert [f.path for f in store.walk(folder)] == [f"{folder}/a.csv", f"{folder}/sub/b.csv"]
    assert store.get(f"{folder}/a.csv")[:4] == b"id,v"
    assert store.get_ranges(f"{folder}/a.csv", [(0, 2), (3, 1)]) == [b"id", b"v"]
    assert store.open_input(f"{folder}/a.csv").read() == b"id,v\n1,x\n2,y\n"
    assert store.list(f"{folder}/none") == []
    assert store.info(f"{folder}/none") is store.info(f"{folder}/sub") is None
    assert store.exists(f"{folder}/sub")
    with pytest.raises(NotFoundError):
        store.get(f"{folder}/none")


def test_a_batch_of_files_that_lie_there(folder: str, tmp_path: object) -> None:
    fields = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}})
    table.upsert_files([f"{folder}/a.csv", f"{folder}/sub/b.csv"])
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == ["x", "y", "z"]


def test_urls_that_nothing_opens() -> None:
    assert isinstance(open_landing("/x"), LocalStore)
    with pytest.raises(UnsupportedError, match="no landing folder can be there"):
        open_landing("gopher://x/y")
