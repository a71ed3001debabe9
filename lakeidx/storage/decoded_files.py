"""Cache of decoded files, bounded by their bytes: of files that are written once under a name that is never reused.

What was read of them stays true, also when they are gone. Least recently used ones go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, NamedTuple


class Decoded(NamedTuple):
    """One file.

    value    what it held
    size     bytes of the file
    nbytes   bytes of the value
    """

    value: Any
    size: int
    nbytes: int


class DecodedFiles:
    """Decoded files by path, for all threads of a process.

    max_bytes   of what is kept; one file may have more
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._files: OrderedDict[str, Decoded] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, path: str) -> bool:
        return path in self._files

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return self._bytes

    def find(self, path: str) -> Decoded | None:
        """Find a file, and count the use."""
        with self._lock:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
            return found

    def keep(self, path: str, file: Decoded) -> None:
        """Keep a file; others may have to go."""
        with self._lock:
            if path not in self._files:
                self._files[path] = file
                self._bytes += file.nbytes
            while self._bytes > self.max_bytes and len(self._files) > 1:
                _, freed = self._files.popitem(last=False)
                self._bytes -= freed.nbytes
