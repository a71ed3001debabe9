"""A store in this process's memory: for small batches that are staged, and for tests."""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import pyarrow as pa

from lakeidx.errors import NotFoundError, UnsupportedError
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import OutputFile, name_of

_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()


class _File(NamedTuple):
    data: bytes
    mtime_ms: int
    etag: str


class MemoryStore(ObjectStore):
    """A store that ends with its process; copies of it in this process are the same store."""

    def __init__(self, uri: str = "/") -> None:
        self._uri = uri
        self._name = uuid.uuid4().hex
        self._files: dict[str, _File] = {}
        self._puts = 0
        self._lock = threading.Lock()
        _stores[self._name] = self

    @property
    def uri(self) -> str:
        """The path it was made for."""
        return self._uri

    @property
    def place(self) -> str:
        """The store's own name."""
        return f"memory:{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_store, (self._name,)

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        return self._find(path).data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        data = self._find(path).data
        return [data[offset : offset + length] for offset, length in ranges]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return len(self._find(path).data)

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        found = self._files.get(path)
        return (
            None if found is None else FileInfo(path, name_of(path), len(found.data), found.mtime_ms, False, found.etag)
        )

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when there are none."""
        base, found = dir.rstrip("/"), dict[str, FileInfo]()
        for info in self.walk(dir):
            name, below, _ = info.path[len(base) + 1 :].partition("/")
            found[name] = FileInfo(f"{base}/{name}", name, 0, 0, True) if below else info
        return [found[name] for name in sorted(found)]

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth."""
        prefix = f"{dir.rstrip('/')}/"
        with self._lock:
            paths = [path for path in self._files if path.startswith(prefix)]
        for path in paths:
            info = self.info(path)
            if info is not None:
                yield info

    def everything(self) -> Iterator[FileInfo]:
        """List all files."""
        with self._lock:
            paths = list(self._files)
        yield from (f for path in paths if (f := self.info(path)) is not None)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file."""
        with self._lock:
            self._put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""
        with self._lock:
            absent = path not in self._files
            if absent:
                self._put(path, data)
        return absent

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        with self._lock:
            self._files.pop(path, None)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        return pa.BufferReader(self.get(path))

    def open_output(self, path: str) -> MemoryOutput:
        """Write a file in pieces."""
        return MemoryOutput(lambda data: self.put(path, data))

    def _find(self, path: str) -> _File:
        found = self._files.get(path)
        if found is None:
            raise NotFoundError("no such file", path=path)
        return found

    def _put(self, path: str, data: bytes) -> None:
        self._puts += 1
        self._files[path] = _File(bytes(data), int(time.time() * 1000), str(self._puts))


class MemoryOutput(OutputFile):
    """A file being written; see `lakeidx.storage.files.OutputFile`."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put = put
        self._buffer = io.BytesIO()
        self._written = 0

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        return self._buffer.closed

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        count = self._buffer.write(data)
        self._written += count
        return count

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._written

    def close(self) -> None:
        """Finish the file and make it visible."""
        if not self.closed:
            self._put(self._buffer.getvalue())
            self._buffer.close()

    def abort(self) -> None:
        """Abort the file."""
        self._buffer.close()


def _find_store(name: str) -> MemoryStore:
    found = _stores.get(name)
    if found is None:
        raise UnsupportedError("a store in memory is in the process that made it: other processes cannot use it")
    return found
