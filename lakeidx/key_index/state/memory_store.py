"""A store in this process, for states that end with it; implements `lakeidx.key_index.state.run_files.StateStore`."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from lakeidx.errors import NotFoundError
from lakeidx.storage.base import FileInfo, name_of, parent_of


class MemoryStore:
    """Files by their paths; safe for threads."""

    waits = False

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        try:
            return self._files[path]
        except KeyError:
            raise NotFoundError("no such file", path=path) from None

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""
        return self.get(path)[offset : offset + length]

    def list(self, dir: str) -> list[FileInfo]:
        """List the files directly below."""
        now = int(time.time() * 1000)
        with self._lock:
            found = [(p, len(data)) for p, data in self._files.items() if parent_of(p) == dir.rstrip("/")]
        return [FileInfo(p, name_of(p), size, now, False) for p, size in sorted(found)]

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        with self._lock:
            self._files[path] = data

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist."""
        with self._lock:
            return self._files.setdefault(path, data) is data

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files; missing ones are fine."""
        with self._lock:
            for path in paths:
                self._files.pop(path, None)
