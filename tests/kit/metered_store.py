"""A store that counts: requests and bytes by verb."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import OutputFile
from lakeidx.storage.range_file import open_ranges
from lakeidx.testing.fault_store import WatchedOutput


@dataclass(frozen=True, slots=True)
class Count:
    """Cost of one verb."""

    requests: int = 0
    bytes: int = 0


class MeteredStore:
    """Counts the calls that go through it. Thread-safe; a pickled copy counts on its own.

    Verbs are the method names; reads through `open_input` count as ``get_range``, an output file as one ``put``, ``delete_many``
    as one ``delete`` per file.
    """

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self._counts: dict[str, Count] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["inner"])  # type: ignore[misc]

    @property
    def uri(self) -> str:
        """As the store within."""
        return self.inner.uri

    @property
    def place(self) -> str:
        """As the store within."""
        return self.inner.place

    @property
    def waits(self) -> bool:
        """As the store within."""
        return self.inner.waits

    @property
    def counts(self) -> Mapping[str, Count]:
        """Requests and bytes so far, by verb."""
        with self._lock:
            return dict(self._counts)

    @property
    def total(self) -> Count:
        """Requests and bytes so far, over all verbs."""
        counts = self.counts.values()
        return Count(sum(c.requests for c in counts), sum(c.bytes for c in counts))

    def reset(self) -> None:
        """Begin at zero again."""
        with self._lock:
            self._counts.clear()

    def fresh_session(self) -> ObjectStore:
        """Return the store within, not counted."""
        return self.inner.fresh_session()

    def get(self, path: str) -> bytes:
        """Count one request and the file's bytes."""
        data = self.inner.get(path)
        self._add("get", len(data))
        return data

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Count one request and the bytes read."""
        data = self.inner.get_range(path, offset, length)
        self._add("get_range", len(data))
        return data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Count one request per range."""
        parts = self.inner.get_ranges(path, ranges)
        self._add("get_range", sum(map(len, parts)), requests=len(parts))
        return parts

    def size(self, path: str) -> int:
        """Count one request."""
        self._add("size")
        return self.inner.size(path)

    def info(self, path: str) -> FileInfo | None:
        """Count one request."""
        self._add("info")
        return self.inner.info(path)

    def exists(self, path: str) -> bool:
        """Count one request."""
        self._add("exists")
        return self.inner.exists(path)

    def list(self, dir: str) -> list[FileInfo]:
        """Count one request."""
        self._add("list")
        return self.inner.list(dir)

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """Count one request."""
        self._add("walk")
        return self.inner.walk(dir)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Count one request and its bytes."""
        self._add("put", len(data))
        self.inner.put(path, data, durable=durable)

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Count one request per file, and their bytes."""
        self._add("put", sum(len(data) for _, data in files), requests=len(files))
        self.inner.put_many(files)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Count one request and its bytes, whether it won or not."""
        self._add("put_if_absent", len(data))
        return self.inner.put_if_absent(path, data)

    def delete(self, path: str) -> None:
        """Count one request."""
        self._add("delete")
        self.inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Count one request per file."""
        todo = [*paths]
        self._add("delete", requests=len(todo))
        self.inner.delete_many(todo)

    def delete_empty_dir(self, dir: str) -> bool:
        """Count one request."""
        self._add("delete_empty_dir")
        return self.inner.delete_empty_dir(dir)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file that counts every read."""
        length = self.size(path) if size is None else size
        return open_ranges(lambda ranges: self.get_ranges(path, ranges), length)

    def open_output(self, path: str) -> OutputFile:
        """Count as one put when it is closed, not when it is aborted."""
        found = self.inner.open_output(path)

        def close() -> None:
            size = found.tell()
            found.close()
            self._add("put", size)

        return WatchedOutput(found, close)

    def _add(self, verb: str, size: int = 0, *, requests: int = 1) -> None:
        with self._lock:
            old = self._counts.get(verb, Count())
            self._counts[verb] = Count(old.requests + requests, old.bytes + size)
