from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.storage import LocalStore
from lakeidx.storage.local import local_path
from lakeidx.storage.local_write import _directory_of


def test_uris_of_files_are_paths() -> None:
    assert local_path("/a b/c%2Fd") == "/a b/c%2Fd"
    assert local_path("file:///a b/c%2Fd?e#f") == "/a b/c%2Fd?e#f"
    assert local_path("file:/a") == "/a"
    assert local_path("file://localhost/a") == "/a"
    assert local_path("rel/x") == "rel/x"
    for bad in ("file://host/a", "file:a", "file://"):
        with pytest.raises(InvalidInputError):
            local_path(bad)


def test_no_temp_files_stay(tmp_path: Path) -> None:
    store = LocalStore()
    path = str(tmp_path / "d" / "f")
    store.put(path, b"1")
    assert store.put_if_absent(path + "2", b"1")
    assert not store.put_if_absent(path + "2", b"2")
    with store.open_output(path + "3") as out:
        out.write(b"x")
    assert sorted(os.listdir(tmp_path / "d")) == ["f", "f2", "f3"]


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_failed_put_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    store, path = LocalStore(), str(tmp_path / "f")
    store.put(path, b"old")

    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UnavailableError, match="No space left"):
        store.put(path, b"new")
    monkeypatch.undo()
    assert store.get(path) == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_what_is_put_is_flushed_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file first, then the name it has got."""
    flushed: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: flushed.append("directory" if S_ISDIR(os.fstat(fd).st_mode) else "file")
    )
    for sync in (True, False):
        store = LocalStore(sync=sync)
        store.put(f"{tmp_path}/put-{sync}", b"1")
        assert store.put_if_absent(f"{tmp_path}/absent-{sync}", b"1")
        with store.open_output(f"{tmp_path}/output-{sync}") as out:
            out.write(b"x")
    assert flushed == ["file", "directory"] * 3


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store, path = LocalStore(), str(tmp_path / "f")
    assert store.put_if_absent(path, b"1")
    assert not store.put_if_absent(path, b"2")
    monkeypatch.setattr(os.path, "lexists", lambda p: False)
    assert not store.put_if_absent(path, b"3")
    assert (store.get(path), os.listdir(tmp_path)) == (b"1", ["f"])


def test_a_link_that_fails_otherwise_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(UnavailableError):
        LocalStore().put_if_absent(str(tmp_path / "f"), b"1")
    assert os.listdir(tmp_path) == []


def test_place_is_the_disk(tmp_path: Path) -> None:
    assert LocalStore(str(tmp_path / "not" / "there")).place == f"local:{os.stat(tmp_path).st_dev}"
    assert LocalStore(f"file://{tmp_path}").place == LocalStore(str(tmp_path)).place


@pytest.mark.parametrize("sync", [True, False])
def test_new_directories_are_flushed_up_to_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.readlink(f"/proc/self/fd/{fd}")))
    store, table = LocalStore(sync=sync), tmp_path / "t"
    with store.open_output(f"{table}/p=1/bucket-0/data") as out:
        out.write(b"x")
    made, data = flushed[:3], flushed[3:]
    store.put(f"{table}/p=1/bucket-0/more", b"1")
    if not sync:
        assert not flushed
        return
    assert sorted(made) == [str(tmp_path), str(table), str(table / "p=1")]
    assert [os.path.dirname(data[0]), *data[1:]] == [str(table / "p=1" / "bucket-0")] * 2
    assert len(flushed) == 7


def test_writing_with_a_lost_directory(tmp_path: Path) -> None:
    out = LocalStore().open_output(str(tmp_path / "d" / "f"))
    out.write(b"1")
    for p in (tmp_path / "d").iterdir():
        p.unlink()
    (tmp_path / "d").rmdir()
    with pytest.raises(NotFoundError):
        out.close()


@pytest.mark.parametrize("path", ["/lake/t/schema-0", "/schema-0", "t/schema-0", "schema-0", "./schema-0"])
def test_the_directory_of_a_file_is_that_of_the_standard_library(path: str) -> None:
    assert _directory_of(path) == (os.path.dirname(path) or ".")
