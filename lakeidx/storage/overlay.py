"""A store as it would be: what is written stays in memory, above another store that is only read.

A table over it can be written and committed to like any other, and nobody else sees it: what was written here is read first.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import OutputFile
from lakeidx.storage.memory import MemoryStore


class OverlayStore(ObjectStore):
    """A store whose copies in other processes have what was written when they were sent."""

    def __init__(self, below: ObjectStore, files: Sequence[tuple[str, bytes]] = (), gone: Iterable[str] = ()) -> None:
        self._below = below
        self._above = MemoryStore(below.uri)
        self._gone = set(gone)
        self._name = uuid.uuid4().hex
        self._above.put_many(files)

    def __reduce__(self) -> tuple[object, ...]:
        files = [(f.path, self._above.get(f.path)) for f in self._above.everything()]
        return OverlayStore, (self._below, files, sorted(self._gone))

    @property
    def uri(self) -> str:
        """The path of the store below."""
        return self._below.uri

    @property
    def place(self) -> str:
        """Name of this process's memory: nobody races for its files."""
        return f"local:memory:{self._name}"

    @property
    def waits(self) -> bool:
        """True when the store below waits."""
        return self._below.waits

    def _of(self, path: str) -> ObjectStore:
        return self._above if self._is_above(path) else self._below

    def _is_above(self, path: str) -> bool:
        return path in self._gone or self._above.info(path) is not None

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        return self._of(path).get(path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        return self._of(path).get_ranges(path, ranges)

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return self._of(path).size(path)

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        return self._of(path).info(path)

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        return self._above.exists(path) or (path not in self._gone and self._below.exists(path))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name."""
        found = {f.name: f for f in self._below.list(dir) if f.path not in self._gone}
        found |= {f.name: f for f in self._above.list(dir)}
        return [found[name] for name in sorted(found)]

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth."""
        yield from self._above.walk(dir)
        yield from (f for f in self._below.walk(dir) if not self._is_above(f.path))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file, in memory."""
        self._gone.discard(path)
        self._above.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""
        if not self._is_above(path) and self._below.info(path) is not None:
            return False
        self._gone.discard(path)
        return self._above.put_if_absent(path, data)

    def delete(self, path: str) -> None:
        """Remove a file from what is seen here."""
        self._above.delete(path)
        self._gone.add(path)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        return self._of(path).open_input(path, size=size)

    def open_output(self, path: str) -> OutputFile:
        """Write a file in pieces, in memory."""
        self._gone.discard(path)
        return self._above.open_output(path)
