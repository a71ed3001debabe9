"""Files written on a local disk (or a mounted file system with POSIX rename and link).

put            temp file in the same directory, fsync, rename over the target
put_if_absent  temp file, fsync, hard link to the target: the link fails when the target exists, and the target is complete the
               moment it appears. File systems without hard links get an exclusive create instead, whose content a reader may
               see half written.
open_output    as put, in pieces

Directories are synced, too, those of new directories included: a name that nobody waited for may be gone after a power cut,
whatever was waited for later. `sync` = False leaves all that out. All functions take the operating system's paths, and raise its
errors.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any
from uuid import uuid4

from lakeidx.storage.files import OutputFile, translate, translated

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
)
_NEW = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class LocalOutput(OutputFile):
    """A file being written under a temporary name; see `lakeidx.storage.files.OutputFile`."""

    def __init__(self, target: str, path: str, *, sync: bool) -> None:
        self._target, self._path, self._sync = target, path, sync
        self._temp, descriptor = _open_temp(target, sync=sync)
        self._file = open(descriptor, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by close() or abort()

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        return self._file.closed

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        with translated(self._path):
            return self._file.write(data)

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
                _sync_directory(_directory_of(self._target))
        except OSError as e:
            self.abort()
            _unlink(self._temp)
            raise translate(e, self._path) from e

    def abort(self) -> None:
        """Abort the file."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                self._file.close()
            _unlink(self._temp)


def replace_file(target: str, data: bytes, *, sync: bool) -> None:
    """Write a file under a temporary name and rename it over its target."""
    temp = _write_temp(target, data, sync=sync)
    try:
        os.replace(temp, target)
    except BaseException:
        _unlink(temp)
        raise
    if sync:
        _sync_directory(_directory_of(target))


def create_file(target: str, data: bytes, *, sync: bool) -> bool:
    """Write a file that must not exist; True when this call made it."""
    return not os.path.lexists(target) and _link(_write_temp(target, data, sync=sync), target, data, sync=sync)


def _link(temp: str, target: str, data: bytes, *, sync: bool) -> bool:
    """Give a file that is on the disk its name, unless one has it; the temporary one is gone then."""
    try:
        os.link(temp, target)
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        if not _create_exclusive(target, data, sync=sync):
            return False
    finally:
        _unlink(temp)
    if sync:
        _sync_directory(_directory_of(target))
    return True


def _write_temp(target: str, data: bytes, *, sync: bool) -> str:
    """Write a file under a temporary name beside its target; return that name."""
    temp, descriptor = _open_temp(target, sync=sync)
    _fill(temp, descriptor, data, sync=sync)
    return temp


def _create_exclusive(target: str, data: bytes, *, sync: bool) -> bool:
    try:
        descriptor = _open_new(target, os.O_EXCL, sync=sync)
    except FileExistsError:
        return False
    _fill(target, descriptor, data, sync=sync)
    return True


def _fill(path: str, descriptor: int, data: bytes, *, sync: bool) -> None:
    """Write a new file, and wait for the disk; remove it when that fails."""
    try:
        try:
            _write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _unlink(path)
        raise


def _open_temp(target: str, *, sync: bool) -> tuple[str, int]:
    """Open a new file beside a target, under a name of its own; `sync`: wait until new directories are on the disk."""
    parent, slash, name = target.rpartition("/")
    temp = f"{parent}{slash}.{name}.{uuid4()}.tmp"
    return temp, _open_new(temp, os.O_EXCL, sync=sync)


def _open_new(path: str, how: int, *, sync: bool) -> int:
    """Open a file to write, in a directory that is made where it is not there; `how`: flags that say what one of its name means."""
    try:
        return os.open(path, _NEW | how, 0o666)
    except FileNotFoundError:
        _make_directories(os.path.dirname(path), sync=sync)
        return os.open(path, _NEW | how, 0o666)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all the bytes: the system may take some at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _unlink(path: str) -> None:
    """Remove a file that may be gone, or stay."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _directory_of(path: str) -> str:
    """Return the directory a path is in: its own working directory for a name alone."""
    parent, slash, _ = path.rpartition("/")
    return parent or slash or "."


def _sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk, if the file system supports that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_directories(path: str, *, sync: bool) -> None:
    """Make a directory and those above it that are not there; `sync`: return when the disk has the names of all of them."""
    missing, at = list[str](), path
    while at and not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    os.makedirs(path, exist_ok=True)
    if sync:
        for directory in missing:
            _sync_directory(_directory_of(directory))
