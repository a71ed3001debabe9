from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.storage import LocalStore
from lakeidx.storage.local import local_path


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


def test_an_empty_file_that_may_get_lost(tmp_path: Path) -> None:
    """It is made at once, in a new directory, too, and replaces what was there."""
    store = LocalStore(str(tmp_path))
    note = tmp_path / "a" / "b" / "note"
    for _ in range(2):
        store.put(str(note), b"", durable=False)
        assert note.read_bytes() == b""
        assert os.listdir(note.parent) == ["note"]
        note.write_bytes(b"longer")


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


def test_what_waits_is_flushed_with_what_is_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    for sync in (True, False):
        monkeypatch.setattr(os, "fsync", lambda fd: None)
        store, folder = LocalStore(sync=sync), tmp_path / f"{sync}"
        store.put(f"{folder}/a/old", b"1")
        store.put(f"{folder}/b/old", b"1")
        monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.readlink(f"/proc/self/fd/{fd}")))
        store.put(f"{folder}/a/put", b"1", durable=False)
        with store.open_output(f"{folder}/a/output", durable=False) as out:
            out.write(b"x")
        assert not flushed or not sync
        store.put_many([(f"{folder}/b/many", b"1")], waiting=[f"{folder}/a/put", f"{folder}/a/output"])
    names = ("a", "a/output", "a/put", "b", "b/many")
    assert sorted(flushed) == [str(tmp_path / "True" / name) for name in names]
    with pytest.raises(NotFoundError, match=r"gone: no such file|no such file.*gone"):
        LocalStore().put_many([], waiting=[f"{tmp_path}/True/a/put", f"{tmp_path}/True/a/gone"])


def test_a_put_that_is_made_ready_waits_for_the_disk_with_the_files_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = LocalStore(), f"{tmp_path}/snapshot/s"
    store.put(f"{tmp_path}/snapshot/old", b"1")
    store.put(f"{tmp_path}/m/old", b"1")
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.readlink(f"/proc/self/fd/{fd}")))
    put = store.prepare_put(target, b"2", files=[(f"{tmp_path}/m/new", b"1")])
    temporary = [name for name in os.listdir(tmp_path / "snapshot") if name != "old"]
    names = ("m", "m/new", f"snapshot/{temporary[0]}")
    assert sorted(flushed) == [str(tmp_path / name) for name in names]
    flushed.clear()
    assert put()
    assert flushed == [str(tmp_path / "snapshot")]
    assert sorted(os.listdir(tmp_path / "snapshot")) == ["old", "s"]
    flushed.clear()
    # Who has lost already writes nothing.
    assert not store.prepare_put(target, b"3", files=[(f"{tmp_path}/m/late", b"1")])()
    assert (flushed, sorted(os.listdir(tmp_path / "m"))) == ([], ["new", "old"])


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_put_that_cannot_be_made_ready_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*args: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "m").mkdir()
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UnavailableError, match="Input/output error"):
        LocalStore().prepare_put(f"{tmp_path}/s", b"2", files=[(f"{tmp_path}/m/new", b"1")])
    monkeypatch.undo()
    put = LocalStore().prepare_put(f"{tmp_path}/s", b"2")
    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(UnavailableError, match="Input/output error"):
        put()
    assert os.listdir(tmp_path) == ["m"]


def test_a_put_that_is_made_ready_outlives_its_directory(tmp_path: Path) -> None:
    put = LocalStore().prepare_put(f"{tmp_path}/d/s", b"2")
    shutil.rmtree(tmp_path / "d")
    assert put()
    assert (os.listdir(tmp_path / "d"), LocalStore().get(f"{tmp_path}/d/s")) == (["s"], b"2")


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store, path = LocalStore(), str(tmp_path / "f")
    assert store.put_if_absent(path, b"1")
    assert not store.put_if_absent(path, b"2")
    monkeypatch.setattr(os.path, "lexists", lambda p: False)
    assert not store.put_if_absent(path, b"3")
    assert not store.prepare_put(path, b"3")()
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


def test_only_file_systems_of_the_network_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = os.stat(tmp_path).st_dev
    monkeypatch.setattr("lakeidx.storage.local.is_remote", lambda device: device == asked)
    assert LocalStore(f"file://{tmp_path}/not/there").waits
    assert not LocalStore("/proc/self").waits
