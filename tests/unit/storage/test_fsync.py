"""Several files are waited for side by side, by threads that a forked process begins anew."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from lakeidx.storage.fsync import directory_of, sync_directory, sync_files
from lakeidx.testing.limits import HANGS_SECONDS


def files_in(folder: Path, count: int) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{os.getpid()}-{n}" for n in range(count)]
    for path in paths:
        path.write_bytes(b"1")
    return [str(path) for path in paths]


def sync_some(folder: Path) -> int:
    files = files_in(folder, 5)
    sync_files(files)
    return len(files)


def name_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def test_files_and_their_directories_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path / "a", 3) + files_in(tmp_path / "b", 1)
    together = threading.Barrier(6, timeout=HANGS_SECONDS)
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        together.wait()
        synced.append(name_of(descriptor))

    monkeypatch.setattr(os, "fsync", fsync)
    sync_files(files)
    assert sorted(synced) == sorted([*files, str(tmp_path / "a"), str(tmp_path / "b")])


def test_the_error_of_one_is_raised_when_all_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, synced = files_in(tmp_path, 3), list[str]()
    bad = ""

    def fsync(descriptor: int) -> None:
        if name_of(descriptor) == bad:
            raise OSError(28, "No space left on device")
        synced.append(name_of(descriptor))

    monkeypatch.setattr(os, "fsync", fsync)
    for bad in files:
        synced.clear()
        with pytest.raises(OSError, match="No space left"):
            sync_files(files)
        assert sorted(synced) == sorted({*files, str(tmp_path)} - {bad})
    with pytest.raises(FileNotFoundError):
        sync_files([files[0], f"{files[0]}-gone"])
    synced.clear()
    sync_files([])
    assert not synced
    sync_files([], unnamed=files[:1])
    assert synced == files[:1]
    synced.clear()
    sync_directory(str(tmp_path))
    assert synced == [str(tmp_path)]


def test_many_files_are_opened_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, most, synced = files_in(tmp_path, 200), [0], list[str]()

    def fsync(descriptor: int) -> None:
        most.append(len(os.listdir("/proc/self/fd")))
        synced.append(name_of(descriptor))
        if synced[-1] == files[150]:
            raise ValueError("not of the system")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ValueError, match="not of the system"):
        sync_files(files)
    assert sorted(synced) == sorted([*files, str(tmp_path)])
    assert max(most) < before + 80
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    assert sync_some(tmp_path) == 5
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert pool.submit(sync_some, tmp_path).result(timeout=HANGS_SECONDS) == 5


@pytest.mark.parametrize("path", ["/lake/t/schema-0", "/schema-0", "t/schema-0", "schema-0", "./schema-0"])
def test_the_directory_of_a_file_is_that_of_the_standard_library(path: str) -> None:
    assert directory_of(path) == (os.path.dirname(path) or ".")
