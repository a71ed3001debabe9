"""Waits for a disk: once for several files, as file systems bring what is waited for side by side to the disk together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_THREADS = 8


class _Pool:
    """Threads that stay from call to call: starting some takes longer than a fast disk does."""

    threads: ThreadPoolExecutor | None = None

    @classmethod
    def forget(cls) -> None:
        """Begin anew in a forked process, which has none of the threads."""
        cls.threads = None


os.register_at_fork(after_in_child=_Pool.forget)


def sync_files(descriptors: Sequence[int]) -> None:
    """Return when all these open files are on the disk; the first one's OSError, as it is."""
    if len(descriptors) < 2:
        for descriptor in descriptors:
            os.fsync(descriptor)
        return
    threads = _Pool.threads
    if threads is None:
        threads = _Pool.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="fsync")
    waiting = [threads.submit(os.fsync, descriptor) for descriptor in descriptors[1:]]
    try:
        os.fsync(descriptors[0])
    finally:
        # Nobody may close a file while it is waited for.
        errors = [one.exception() for one in waiting]
    for error in errors:
        if error is not None:
            raise error


def sync_directory(path: str) -> None:
    """Return when the names in a directory are on the disk, where the file system can tell."""
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
