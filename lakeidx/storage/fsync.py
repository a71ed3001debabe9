"""Waits for a disk: once for several files, as file systems bring what is waited for side by side to the disk together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_THREADS = 8


class _Pool:
    """Threads that are kept from call to call: starting some takes longer than a fast disk does."""

    threads: ThreadPoolExecutor | None = None

    @classmethod
    def forget(cls) -> None:
        """Start with no threads in a forked process, which does not inherit them."""
        cls.threads = None


os.register_at_fork(after_in_child=_Pool.forget)


def sync_files(paths: Sequence[str]) -> None:
    """Return when all these files are on the disk, and their names in their directories; the first one's OSError, as it is.

    They need not be open, nor be of this process: a descriptor is told of a write that failed before it was opened, too.
    """
    if not paths:
        return
    threads = _Pool.threads
    if threads is None:
        threads = _Pool.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="fsync")
    directories = sorted({os.path.dirname(path) or "." for path in paths})
    waiting = [
        *(threads.submit(_sync_file, path) for path in paths[1:]),
        *(threads.submit(sync_directory, path) for path in directories),
    ]
    try:
        _sync_file(paths[0])
    finally:
        errors = [one.exception() for one in waiting]
    for error in errors:
        if error is not None:
            raise error


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk, if the file system supports that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: str, *, sync: bool) -> None:
    """Make a directory and those above it that are not there; `sync`: return when the disk has the names of all of them."""
    missing, at = list[str](), path
    while at and not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    os.makedirs(path, exist_ok=True)
    if sync:
        for directory in missing:
            sync_directory(os.path.dirname(directory) or ".")
