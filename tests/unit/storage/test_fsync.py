"""Several files are waited for side by side, by threads that a forked process begins anew."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from lakeidx.storage.fsync import sync_directory, sync_files


def sync_some(folder: Path) -> int:
    files = [(folder / f"{os.getpid()}-{n}").open("xb") for n in range(5)]
    sync_files([f.fileno() for f in files])
    for file in files:
        file.close()
    return len(files)


def test_files_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(4, timeout=30)
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        together.wait()
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    sync_files([7, 8, 9, 10])
    assert sorted(synced) == [7, 8, 9, 10]


def test_the_error_of_one_is_raised_when_all_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        if descriptor < 0:
            raise OSError(28, "No space left on device")
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for bad in range(3):
        descriptors = [1, 2, 3]
        descriptors[bad] = -1
        synced.clear()
        with pytest.raises(OSError, match="No space left"):
            sync_files(descriptors)
        assert sorted(synced) == sorted({1, 2, 3} - {bad + 1})
    sync_files([])
    assert len(synced) == 2
    sync_directory(str(tmp_path))
    assert len(synced) == 3


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    assert sync_some(tmp_path) == 5
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert pool.submit(sync_some, tmp_path).result(timeout=60) == 5
