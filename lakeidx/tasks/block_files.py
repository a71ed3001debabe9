"""Blocks of rows between the tasks of one machine, in local files that are deleted when their shuffle ends.

A map task writes its blocks one after another into a file of its own, which no other attempt of that task writes; who reads is told
where each block lies. The process that shuffles makes the folder of these files and holds its lock as long as it runs: a folder
whose process was killed has none, and the next shuffle of the machine removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from lakeidx.errors import UnavailableError

#: How blocks in files are compressed: not at all. They are read again within seconds, mostly before the disk has them.
FILE_COMPRESSION: str | None = None

_PREFIX = "lakeidx-shuffle-"
#: How often a folder is removed into which tasks write that have not heard yet that theirs is over.
_REMOVALS = 3


@contextmanager
def block_folder(place: str | None = None) -> Iterator[str]:
    """Make a folder for the blocks of one shuffle, deleted with its files at the end; remove what killed processes left.

    place    where to make it; None = the system's folder for temporary files
    errors   UnavailableError when it cannot be made
    """
    place = place or tempfile.gettempdir()
    _sweep(place)
    try:
        folder, lock = _locked_folder(place)
    except OSError as error:
        raise UnavailableError(f"cannot create a folder for shuffle files: {error.strerror}", path=place) from error
    try:
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


class BlockWriter(AbstractContextManager["BlockWriter"]):
    """Writes the blocks of one task, or of one item, into a new file of a folder; the first one makes it."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, f"{uuid.uuid4().hex}.blocks")
        self._file: BinaryIO | None = None

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return self._path.name

    def write(self, payload: pa.Buffer) -> tuple[int, int]:
        """Append a block; return its first byte in the file, and how many it has.

        errors   UnavailableError for a full or failing disk
        """
        try:
            if self._file is None:
                # Unbuffered: blocks are large, and a full disk is to be said by the block that it has no place for.
                self._file = self._path.open("xb", buffering=0)
            start, left = self._file.tell(), memoryview(payload)
            while len(left):
                left = left[self._file.write(left) :]
        except OSError as error:
            raise UnavailableError(f"cannot write the shuffle file: {error.strerror}", path=str(self._path)) from error
        return start, payload.size

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def read_block(folder: str, name: str, start: int, size: int) -> pa.Buffer:
    """Read a block.

    errors   UnavailableError when the file is gone or ends before the block does
    """
    path = Path(folder, name)
    payload = pa.allocate_buffer(size)
    try:
        # Opened for each block: there may be more files than a process may have open.
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            left = memoryview(payload)
            while len(left) and (count := file.readinto(left)):
                left = left[count:]
    except OSError as error:
        raise UnavailableError(f"cannot read the shuffle file: {error.strerror}", path=str(path)) from error
    if len(left):
        raise UnavailableError(
            f"the shuffle file is cut short: {len(left)} of {size} bytes are missing", path=str(path), offset=start
        )
    return payload


def _locked_folder(place: str) -> tuple[str, int | None]:
    while True:
        folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
        try:
            lock = _lock(folder)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.ENOENT):
                # A file system without locks: nobody else gets one there either, and what a killed process leaves stays.
                return folder, None
        else:
            # Another process may have taken it for one that was left: before there was a lock.
            if os.path.isdir(folder):
                return folder, lock
            os.close(lock)


def _lock(folder: str) -> int:
    """Lock a folder; the lock ends with the process at the latest.

    errors   OSError when someone else has it, or there is no such folder
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held


def _sweep(place: str) -> None:
    """Remove the folders of dead processes; other users' stay."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    lock = _lock(entry.path)
                    _remove(entry.path)
                    os.close(lock)


def _remove(folder: str) -> None:
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.isdir(folder):
            return
