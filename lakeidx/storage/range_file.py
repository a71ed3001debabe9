"""Random access to a remote file through ranged reads, shaped for Arrow's Parquet reader."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

# Below this a file is fetched whole: one request instead of footer + column chunks.
WHOLE_FILE_BYTES = 1 << 20
# Read with the first request of a larger file: holds the footer of all but the widest Parquet files.
TAIL_BYTES = 1 << 17

FetchRange = Callable[[int, int], bytes]


class RangeFile(io.RawIOBase):
    """A read-only file whose bytes come from a function (offset, length) -> bytes.

    The last `TAIL_BYTES` are fetched once and kept, since Parquet readers begin there.
    """

    def __init__(self, fetch: FetchRange, size: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._pos = 0
        self._tail: bytes | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._pos

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._pos, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("seek before the start of the file")
        self._pos = base + offset
        return self._pos

    def size(self) -> int:
        """Return the bytes of the file."""
        return self._size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read the next bytes; all that are left for -1 or None."""
        left = max(0, self._size - self._pos)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        start = self._pos
        tail_start = max(0, self._size - TAIL_BYTES)
        if start >= tail_start:
            if self._tail is None:
                self._tail = self._fetch(tail_start, self._size - tail_start)
            data = self._tail[start - tail_start : start - tail_start + length]
        else:
            data = self._fetch(start, length)
        self._pos = start + len(data)
        return data

    def readall(self) -> bytes:
        """Read all remaining bytes."""
        return self.read(-1)


def open_ranges(fetch: FetchRange, size: int) -> pa.NativeFile:
    """Open a file for random access by Arrow, over ranged reads.

    size   bytes of the file
    """
    if size <= WHOLE_FILE_BYTES:
        return pa.BufferReader(fetch(0, size) if size else b"")
    return pa.PythonFile(RangeFile(fetch, size), mode="r")
