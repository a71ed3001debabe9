"""Landing folders through fsspec: its store in memory, a web server, archives."""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import threading
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx import LandingOptions, Table
from lakeidx.errors import (
    CorruptFileError,
    InvalidInputError,
    LakeIdxError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakeidx.storage import LocalStore
from lakeidx.storage.landing_folders import open_landing, refuse_plain_secrets


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


_CREATE = {
    "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "1"},
}
_PASSWORD = "Basic YWRhOnB3LTU="


class _Pages(http.server.SimpleHTTPRequestHandler):
    """Files of a folder for who has the password; without ranges, as Python's server is."""

    def send_head(self) -> Any:
        if self.headers.get("Authorization") != _PASSWORD:
            self.send_error(401)
            return None
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "v": ["x", "y"]}), tmp_path / "in/a.parquet")
    (tmp_path / "in/b.csv").write_text("id,v\n3,z\n")
    handler = functools.partial(_Pages, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}/in"
        server.shutdown()


def test_files_of_a_web_server_that_asks_for_a_password(
    pages: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server knows no ranges, and sends whole files: rows are right all the same."""
    folder, url = pages
    header = {"Authorization": "${LAKEIDX_SECRET_PAGES}"}
    options = LandingOptions(storage_options={"headers": header})
    table = Table.create(f"{folder}/d.db/t", _CREATE)
    with pytest.raises(InvalidInputError, match="LAKEIDX_SECRET_PAGES is not set"):
        table.upsert_files([f"{url}/a.parquet"], options)
    monkeypatch.setenv("LAKEIDX_SECRET_PAGES", _PASSWORD)
    store = open_landing(url, None, options.storage_options)
    assert [(f.name, f.path) for f in store.list(url)] == [(n, f"{url}/{n}") for n in ("a.parquet", "b.csv")]
    assert store.get_ranges(f"{url}/b.csv", [(0, 2), (3, 1)]) == [b"id", b"v"]
    table.upsert_files([f"{url}/a.parquet", f"{url}/b.csv"], options, batch_id="pages")
    assert dict(zip(*table.scan().to_arrow().to_pydict().values(), strict=True)) == {1: "x", 2: "y", 3: "z"}
    (folder / "in/b.csv").write_text("id,v\n3,w\n")
    os.utime(folder / "in/b.csv", (9e8, 9e8))
    with pytest.raises(InvalidInputError, match="other content"):
        table.upsert_files([f"{url}/a.parquet", f"{url}/b.csv"], options, batch_id="pages")
    with pytest.raises(InvalidInputError, match="access denied: 401"):
        table.upsert_files([f"{url}/a.parquet"])
    staged = [f.read_bytes() for f in folder.rglob("*") if f.is_file()]
    assert not [text for text in staged if _PASSWORD.encode() in text]


def _zipped(file: Path, text: str) -> None:
    parquet = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), parquet)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.parquet", parquet.getvalue().to_pybytes())
        archive.writestr("sub/b.csv.gz", gzip.compress(text.encode()))


def test_files_in_an_archive(tmp_path: Path) -> None:
    """The ending of the name in the archive counts; an archive that was replaced is read anew."""
    url = f"zip://::{tmp_path}/x.zip"
    table = Table.create(f"{tmp_path}/d.db/t", _CREATE)
    for text in ("y", "z"):
        _zipped(tmp_path / "x.zip", f"id,v\n2,{text}\n")
        found = list(open_landing(url).walk(url))
        assert [(f.name, f.path) for f in found] == [
            ("a.parquet", f"zip://a.parquet::{tmp_path}/x.zip"),
            ("b.csv.gz", f"zip://sub/b.csv.gz::{tmp_path}/x.zip"),
        ]
        table.upsert_files([f.path for f in found])
        assert dict(zip(*table.scan().to_arrow().to_pydict().values(), strict=True)) == {1: "x", 2: text}


@pytest.mark.parametrize(
    ("url", "options", "error", "says"),
    [
        ("zip://a.csv::{}/none.zip", {}, NotFoundError, "no such file"),
        ("zip://none.csv::{}/x.zip", {}, NotFoundError, "does not exist"),
        ("zip://a.csv::{}/bad.zip", {}, CorruptFileError, "not a readable archive"),
        ("zip://a.csv::gopher://x", {}, UnsupportedError, "no landing folder can be there"),
        ("http://127.0.0.1:1/a.csv", {}, UnavailableError, "did not answer"),
        ("zip://a.csv::{}/x.zip", {"password": "${HOME}"}, InvalidInputError, "begin with LAKEIDX_SECRET_"),
        ("s3://b/a.csv", {"nope": "1"}, InvalidInputError, "nope"),
        ("zip://a.csv::{}/x.zip", ["x"], InvalidInputError, "must be None or a mapping"),
    ],
)
def test_places_that_cannot_be_read(
    url: str, options: Any, error: type[LakeIdxError], says: str, tmp_path: Path
) -> None:
    _zipped(tmp_path / "x.zip", "id,v\n")
    (tmp_path / "bad.zip").write_text("no archive")
    table = Table.create(f"{tmp_path}/d.db/t", _CREATE)
    with pytest.raises(error, match=says) as caught:
        table.upsert_files([url.format(tmp_path)], LandingOptions(storage_options=options))
    assert "\n" not in str(caught.value)
    assert table.snapshot is None


def test_secrets_that_are_written_down() -> None:
    refuse_plain_secrets({"username": "ada", "key_filename": "/k", "password": "${LAKEIDX_SECRET_X}"})
    for options in ({"password": "pw-5"}, {"sftp": {"client_secret": "pw-5"}}):
        with pytest.raises(InvalidInputError, match="is a secret: write") as caught:
            refuse_plain_secrets(options)
        assert "pw-5" not in str(caught.value)
