"""Tables on a local disk (or a mounted file system with POSIX rename and link).

How files are written is in `lakeidx.storage.local_write`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from operator import attrgetter
from stat import S_ISDIR

import pyarrow as pa

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import MISSING, translate, translated
from lakeidx.storage.local_write import LocalOutput, create_file, replace_file


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


class LocalStore(ObjectStore):
    """A store on a file system.

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

    def __repr__(self) -> str:
        return f"LocalStore({self._uri!r})"

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        with translated(path):
            fd = os.open(local_path(path), os.O_RDONLY)
            try:
                # Of a directory, too, a byte is asked for: that is an error.
                return _pread(fd, max(1, os.fstat(fd).st_size), 0)
            finally:
                os.close(fd)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        with translated(path), open(local_path(path), "rb", buffering=0) as f:
            fd = f.fileno()
            return [_pread(fd, length, offset) for offset, length in ranges]

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
        with translated(path):
            replace_file(local_path(path), data, sync=self._sync and durable)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""
        with translated(path):
            return create_file(local_path(path), data, sync=self._sync)

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        try:
            os.unlink(local_path(path))
        except MISSING:
            pass
        except OSError as e:
            raise translate(e, path) from e

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
        with translated(path):
            return pa.OSFile(local_path(path), "rb")

    def open_output(self, path: str) -> LocalOutput:
        """Write a file in pieces."""
        with translated(path):
            return LocalOutput(local_path(path), path, sync=self._sync)

    def _stat_file(self, path: str) -> os.stat_result:
        with translated(path):
            stat = os.stat(local_path(path))
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
