"""New files on a local disk: under a temporary name until they are whole."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from lakeidx.storage.base import WriteOnly
from lakeidx.storage.fsync import directory_of, make_directories, sync_directory
from lakeidx.storage.os_errors import translate
from lakeidx.uuids import random_uuid

_NEW = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class LocalOutput(WriteOnly):
    """A file being written under a temporary name; see `lakeidx.storage.base.OutputFile`."""

    def __init__(self, target: str, path: str, *, sync: bool) -> None:
        self._target, self._path, self._sync = target, path, sync
        self._temp, descriptor = open_temp(target, sync=sync)
        self._file = open(descriptor, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by close() or abort()

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        return self._file.closed

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        try:
            return self._file.write(data)
        except OSError as e:
            raise translate(e, self._path) from e

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._file.tell()

    def flush(self) -> None:
        """Flush the buffer."""
        self._file.flush()

    def close(self) -> None:
        """Finish the file and make it visible."""
        if self._file.closed:
            return
        try:
            if self._sync:
                # A snapshot that survives a power cut must not name data that did not.
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temp, self._target)
            if self._sync:
                sync_directory(directory_of(self._target))
        except OSError as e:
            self.abort()
            unlink(self._temp)
            raise translate(e, self._path) from e

    def abort(self) -> None:
        """Abort the file."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                self._file.close()
            unlink(self._temp)


def open_temp(target: str, *, sync: bool) -> tuple[str, int]:
    """Open a new file beside a target, under a name of its own; `sync`: wait until new directories are on the disk."""
    parent, slash, name = target.rpartition("/")
    temp = f"{parent}{slash}.{name}.{random_uuid()}.tmp"
    return temp, open_new(temp, os.O_EXCL, sync=sync)


def open_new(path: str, how: int, *, sync: bool) -> int:
    """Open a file to write, in a directory that is made where it is not there; `how`: flags that say what one of its name means."""
    try:
        return os.open(path, _NEW | how, 0o666)
    except FileNotFoundError:
        make_directories(os.path.dirname(path), sync=sync)
        return os.open(path, _NEW | how, 0o666)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all the bytes: the system may take some at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def unlink(path: str) -> None:
    """Remove a file that may be gone, or stay."""
    with contextlib.suppress(OSError):
        os.unlink(path)
