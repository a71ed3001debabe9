"""Tables on a local disk (or a mounted file system with POSIX rename and link).

put            temp file in the same directory, fsync, rename over the target
put_if_absent  temp file, fsync, hard link to the target: the link fails when the target exists, and the target is complete the
               moment it appears. File systems without hard links get an exclusive create instead, whose content a reader may
               see half written.
open_output    as put, in pieces

Directories are synced, too, those of new directories included: a name that nobody waited for may be gone after a power cut,
whatever was waited for later.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from stat import S_ISDIR
from typing import Any

import pyarrow as pa

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import MISSING, WriteOnly, translate
from lakeidx.storage.uuids import random_uuid

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
)
_NEW = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


def local_path(path: str) -> str:
    """Return the operating system's path of a plain path or a ``file:`` URI.

    Nothing is unescaped: a ``%2F`` in a partition directory is part of its name, in a URI too (as Hadoop's Path has it).
    """
    if not path.startswith("file:"):
        return path
    rest = path[len("file:") :]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInputError(f"a file URI cannot name the host {host!r}", path=path)
        rest = slash + rest
    if not rest.startswith("/"):
        raise InvalidInputError("a file URI needs an absolute path", path=path)
    return rest


def absolute(path: str) -> str:
    """Return a local path as an absolute one, so that workers in another folder find the same file; URIs stay as they are."""
    return path if "://" in path or path.startswith("file:") else os.path.abspath(path)


class LocalOutput(WriteOnly):
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


class LocalStore:
    """An `lakeidx.storage.base.ObjectStore` on a file system.

    sync   False leaves out fsync: for tests and scratch data that need not survive a power cut
    """

    def __init__(self, uri: str = "/", *, sync: bool = True) -> None:
        self._uri = uri
        self._sync = sync

    @property
    def uri(self) -> str:
        """The path given to `open_store`."""
        return self._uri

    @property
    def place(self) -> str:
        """The disk, by device number."""
        return f"local:{_device_of(local_path(self._uri))}"

    @property
    def waits(self) -> bool:
        """False: a disk answers before another thread has begun."""
        return False

    def fresh_session(self) -> LocalStore:
        """Return the same store: a disk has no sessions."""
        return LocalStore(self._uri, sync=self._sync)

    def __repr__(self) -> str:
        return f"LocalStore({self._uri!r})"

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        try:
            fd = os.open(local_path(path), os.O_RDONLY)
            try:
                # Of a directory, too, a byte is asked for: that is an error.
                return _pread(fd, max(1, os.fstat(fd).st_size), 0)
            finally:
                os.close(fd)
        except OSError as e:
            raise translate(e, path) from e

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes offset .. offset + length; fewer when the file ends before."""
        return self.get_ranges(path, [(offset, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        try:
            with open(local_path(path), "rb", buffering=0) as f:
                fd = f.fileno()
                return [_pread(fd, length, offset) for offset, length in ranges]
        except OSError as e:
            raise translate(e, path) from e

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return self._stat_file(path).st_size

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        try:
            stat = self._stat_file(path)
        except NotFoundError:
            return None
        return FileInfo(path, os.path.basename(local_path(path)), stat.st_size, stat.st_mtime_ns // 1_000_000, False)

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        return os.path.exists(local_path(path))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when the directory is missing."""
        return sorted(self._scan(dir), key=attrgetter("name"))

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth; directories that are links are not entered, since they lead elsewhere."""
        for info in self._scan(dir):
            if not info.is_dir:
                yield info
            elif not os.path.islink(local_path(info.path)):
                yield from self.walk(info.path)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file."""
        target = local_path(path)
        try:
            temp = self._write_temp(target, data, durable=durable)
            try:
                os.replace(temp, target)
            except BaseException:
                _unlink(temp)
                raise
            if durable:
                self._sync_dir(target)
        except OSError as e:
            raise translate(e, path) from e

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write files, one after another."""
        for path, data in files:
            self.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""
        target = local_path(path)
        try:
            return not os.path.lexists(target) and self._link(self._write_temp(target, data), target, data)
        except OSError as e:
            raise translate(e, path) from e

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        try:
            os.unlink(local_path(path))
        except MISSING:
            pass
        except OSError as e:
            raise translate(e, path) from e

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files; missing ones are fine."""
        for path in paths:
            self.delete(path)

    def delete_empty_dir(self, dir: str) -> bool:
        """Remove a directory if it is empty; return True when it does not exist any more."""
        try:
            os.rmdir(local_path(dir))
        except MISSING:
            return True
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise translate(e, dir) from e
        return True

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        try:
            return pa.OSFile(local_path(path), "rb")
        except OSError as e:
            raise translate(e, path) from e

    def open_output(self, path: str) -> LocalOutput:
        """Write a file in pieces."""
        target = local_path(path)
        try:
            return LocalOutput(target, path, sync=self._sync)
        except OSError as e:
            raise translate(e, path) from e

    def _stat_file(self, path: str) -> os.stat_result:
        try:
            stat = os.stat(local_path(path))
        except OSError as e:
            raise translate(e, path) from e
        if S_ISDIR(stat.st_mode):
            raise NotFoundError("this is a directory, not a file", path=path)
        return stat

    def _scan(self, dir: str) -> Iterator[FileInfo]:
        prefix = dir.rstrip("/")
        try:
            with os.scandir(local_path(dir)) as entries:
                for entry in entries:
                    try:
                        is_dir = entry.is_dir()
                        stat = entry.stat()
                    except FileNotFoundError:
                        continue  # deleted by someone else in the meantime
                    size, mtime_ms = 0 if is_dir else stat.st_size, stat.st_mtime_ns // 1_000_000
                    yield FileInfo(f"{prefix}/{entry.name}", entry.name, size, mtime_ms, is_dir)
        except MISSING:
            return
        except OSError as e:
            raise translate(e, dir) from e

    def _link(self, temp: str, target: str, data: bytes) -> bool:
        """Give a file that is on the disk its name, unless one has it; the temporary one is gone then."""
        try:
            os.link(temp, target)
        except FileExistsError:
            return False
        except OSError as e:
            if e.errno not in _NO_LINKS:
                raise
            if not self._create_exclusive(target, data):
                return False
        finally:
            _unlink(temp)
        self._sync_dir(target)
        return True

    def _write_temp(self, target: str, data: bytes, *, durable: bool = True) -> str:
        """Write a file under a temporary name beside its target; return that name."""
        temp, descriptor = _open_temp(target, sync=self._sync and durable)
        self._fill(temp, descriptor, data, durable=durable)
        return temp

    def _create_exclusive(self, target: str, data: bytes) -> bool:
        try:
            descriptor = _open_new(target, os.O_EXCL, sync=self._sync)
        except FileExistsError:
            return False
        self._fill(target, descriptor, data)
        return True

    def _fill(self, path: str, descriptor: int, data: bytes, *, durable: bool = True) -> None:
        """Write a new file, and wait for the disk; remove it when that fails."""
        try:
            try:
                _write_all(descriptor, data)
                if self._sync and durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            _unlink(path)
            raise

    def _sync_dir(self, target: str) -> None:
        if self._sync:
            _sync_directory(_directory_of(target))


def _device_of(path: str) -> int:
    """Return the device number of a path, or of the nearest directory above it that exists."""
    while True:
        try:
            return os.stat(path).st_dev
        except (OSError, ValueError):
            above = os.path.dirname(os.path.abspath(path))
            if above == path:
                raise
            path = above


def _pread(fd: int, length: int, offset: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = os.pread(fd, length, offset)
        if not part:
            break
        if len(part) == length and not parts:
            return part
        parts.append(part)
        length -= len(part)
        offset += len(part)
    return b"".join(parts)


def _open_temp(target: str, *, sync: bool) -> tuple[str, int]:
    """Open a new file beside a target, under a name of its own; `sync`: wait until new directories are on the disk."""
    parent, slash, name = target.rpartition("/")
    temp = f"{parent}{slash}.{name}.{random_uuid()}.tmp"
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
