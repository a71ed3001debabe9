"""Waits for a disk: once for several files, as file systems bring what is waited for side by side to the disk together."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from queue import SimpleQueue

_THREADS = 8
#: Descriptors that a call opens at a time.
_MOST_OPEN = 64
#: A descriptor, its number in the call, and where that and its error go.
_Job = tuple[int, int, "SimpleQueue[tuple[int, BaseException | None]]"]


class _Pool:
    """Threads that are kept from call to call: starting some takes longer than a fast disk does, and so do futures."""

    jobs: SimpleQueue[_Job] | None = None

    @classmethod
    def started(cls) -> SimpleQueue[_Job]:
        """Return where the threads look for descriptors to wait for."""
        if cls.jobs is None:
            cls.jobs = SimpleQueue()
            for number in range(_THREADS):
                threading.Thread(target=_work, args=(cls.jobs,), name=f"fsync_{number}", daemon=True).start()
        return cls.jobs

    @classmethod
    def forget(cls) -> None:
        """Start with no threads in a forked process, which does not inherit them."""
        cls.jobs = None


os.register_at_fork(after_in_child=_Pool.forget)


def _work(jobs: SimpleQueue[_Job]) -> None:
    while True:
        descriptor, number, done = jobs.get()
        done.put((number, _error_of(descriptor)))


def _error_of(descriptor: int) -> BaseException | None:
    try:
        os.fsync(descriptor)
    except BaseException as error:
        return error
    return None


def sync_files(paths: Sequence[str], *, unnamed: Sequence[str] = ()) -> None:
    """Return when all these files are on the disk, and their names in their directories; the first one's OSError, as it is.

    unnamed   files more, whose names need not be there after a power cut

    They need not be open, nor be of this process: a descriptor is told of a write that failed before it was opened, too.
    """
    files = [*paths, *unnamed]
    directories = sorted({*map(directory_of, paths)})
    waiting = [*files, *directories]
    errors: list[BaseException] = []
    for first in range(0, len(waiting), _MOST_OPEN):
        found = _sync_together(waiting[first : first + _MOST_OPEN])
        # Not all file systems can wait for a directory.
        errors += [error for n, error in found if first + n < len(files) or not isinstance(error, OSError)]
    if errors:
        raise errors[0]


def _sync_together(paths: Sequence[str]) -> list[tuple[int, BaseException]]:
    """Wait for some files and directories; return the number and the error of those that failed."""
    jobs, done = _Pool.started(), SimpleQueue[tuple[int, BaseException | None]]()
    descriptors: list[int] = []
    try:
        for path in paths:
            descriptors.append(os.open(path, os.O_RDONLY))
        for number, descriptor in enumerate(descriptors[1:], 1):
            jobs.put((descriptor, number, done))
        found = [(0, _error_of(descriptors[0])), *[done.get() for _ in descriptors[1:]]]
        return sorted([(number, error) for number, error in found if error is not None])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def directory_of(path: str) -> str:
    """Return the directory a path is in: its own working directory for a name alone."""
    parent, slash, _ = path.rpartition("/")
    return parent or slash or "."


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
            sync_directory(directory_of(directory))
