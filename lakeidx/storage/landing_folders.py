"""Landing folders anywhere: what `open_store` opens, and any other URL that fsspec knows (``sftp://``, ``https://``, ``hdfs://``).

They are only read. fsspec's options come from its configuration: files in ``~/.config/fsspec``, or variables such as
``FSSPEC_SFTP_USERNAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import pyarrow as pa

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.storage import open_store
from lakeidx.storage.base import FileInfo, ObjectStore, name_of
from lakeidx.storage.range_file import open_ranges

T = TypeVar("T")

_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "modificationTime", "created")


def open_landing(uri: str, storage_options: Mapping[str, Any] | None = None) -> ObjectStore:
    """Return the store a landing file or folder is in; of one through fsspec only the verbs that read work.

    storage_options   for `open_store`
    errors            UnsupportedError for a URL that fsspec does not know, or needs another package for
    """
    try:
        return open_store(uri, storage_options)
    except UnsupportedError:
        return cast(ObjectStore, FsspecFolder(uri))


class FsspecFolder:
    """The verbs of `lakeidx.storage.base.ObjectStore` that read, over an fsspec URL."""

    waits = True

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.place = f"fsspec:{uri}"
        self._open(uri)

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        return self._call(path, lambda fs, inner: bytes(fs.cat_file(inner)))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes offset .. offset + length; fewer when the file ends before."""
        return self._call(path, lambda fs, inner: bytes(fs.cat_file(inner, start=offset, end=offset + length)))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        return [self.get_range(path, offset, length) for offset, length in ranges]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        found = self.info(path)
        if found is None:
            raise NotFoundError("no such file", path=path)
        return found.size

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        try:
            found = _described(path, self._call(path, lambda fs, inner: fs.info(inner)))
        except NotFoundError:
            return None
        return None if found.is_dir else found

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        return self._call(path, lambda fs, inner: bool(fs.exists(inner)))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when the directory is missing."""
        try:
            found = self._call(dir, lambda fs, inner: fs.ls(inner, detail=True, refresh=True))
        except NotFoundError:
            return []
        base = dir.rstrip("/")
        below = [_described(f"{base}/{name_of(entry['name'])}", entry) for entry in found]
        return sorted(below, key=lambda info: info.name)

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth."""
        for info in self.list(dir):
            if info.is_dir:
                yield from self.walk(info.path)
            else:
                yield info

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        length = self.size(path) if size is None else size
        return open_ranges(lambda offset, n: self.get_range(path, offset, n), length)

    def _open(self, path: str) -> tuple[Any, str]:
        import fsspec

        try:
            fs, inner = fsspec.core.url_to_fs(path)
        except (ImportError, ValueError) as e:
            raise UnsupportedError(f"no landing folder can be there: {e}", path=path) from e
        except Exception as e:
            raise UnavailableError(f"the landing folder's server did not answer: {e}", path=path) from e
        return fs, str(inner)

    def _call(self, path: str, request: Callable[[Any, str], T]) -> T:
        fs, inner = self._open(path)
        try:
            return request(fs, inner)
        except (FileNotFoundError, NotADirectoryError) as e:
            raise NotFoundError("no such file", path=path) from e
        except PermissionError as e:
            raise InvalidInputError(f"access denied: {e}", path=path) from e
        except Exception as e:
            raise UnavailableError(
                f"the landing folder's server did not answer: {e or type(e).__name__}", path=path
            ) from e


def _described(path: str, entry: Mapping[str, Any]) -> FileInfo:
    when = next((entry[name] for name in _TIMES if entry.get(name)), 0)
    seconds = when.timestamp() if isinstance(when, datetime) else float(when) if isinstance(when, int | float) else 0.0
    is_dir = entry.get("type") == "directory"
    return FileInfo(path, name_of(path), int(entry.get("size") or 0), int(seconds * 1000), is_dir)
