"""Random access to a remote file through ranged reads, shaped for Arrow's Parquet reader."""

from __future__ import annotations

import io
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import pyarrow as pa

from lakeidx.errors import CorruptFileError

# Below this a file is fetched whole: one request instead of footer + column chunks.
WHOLE_FILE_BYTES = 1 << 20
# Read with the first request of a larger file: holds the footer of all but the widest Parquet files.
TAIL_BYTES = 1 << 17
#: Of one file, what is fetched before it is needed: enough that a request takes longer than the wait for its answer.
AHEAD_BYTES = 8 << 20
#: Of all files of this process together, where the store's options say nothing.
ALL_AHEAD_BYTES = 64 << 20

FetchRanges = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]


class _Room:
    """Bytes of this process that may be fetched before they are needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = 0

    def take(self, size: int, limit: int) -> bool:
        """Take room; False when more than the limit would be taken."""
        with self._lock:
            fits = self.taken + size <= limit
            self.taken += size if fits else 0
        return fits

    def give_back(self, size: int) -> None:
        """Give room back."""
        with self._lock:
            self.taken -= size


ROOM = _Room()


class _Step:
    """Ranges that are needed together: (offset, length), ascending, apart from each other."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        spans: list[list[int]] = []
        for offset, length in sorted(r for r in ranges if r[1] > 0):
            if spans and offset <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], offset + length)
            else:
                spans.append([offset, offset + length])
        self.ranges = [(start, end - start) for start, end in spans]
        self.bytes = sum(length for _, length in self.ranges)
        self.requested = False
        self.data: Future[Sequence[bytes]] = Future()

    def set(self, found: Sequence[bytes]) -> None:
        """Set the bytes, or the error of a file that ends before."""
        for (offset, length), data in zip(self.ranges, found, strict=True):
            if len(data) != length:
                what = f"expected {length} bytes from byte {offset}, found {len(data)}: the file is cut"
                self.data.set_exception(CorruptFileError(what, offset=offset))
                return
        self.data.set_result(found)

    def take_room(self, limit: int) -> bool:
        """Take room for the bytes, until nothing refers to this any more; False when there is not as much."""
        taken = ROOM.take(self.bytes, limit)
        if taken:
            weakref.finalize(self, ROOM.give_back, self.bytes)
        return taken


def _fetch_steps(fetch: FetchRanges, steps: Sequence[_Step]) -> None:
    """Fetch some steps by one call; what fails is raised where one of them is needed."""
    try:
        found = iter(fetch([r for step in steps for r in step.ranges]))
        for step in steps:
            step.set(list(itertools.islice(found, len(step.ranges))))
    except BaseException as error:
        for step in steps:
            if not step.data.done():
                step.data.set_exception(error)


class RangeFile(io.RawIOBase):
    """A read-only file whose bytes come from a function [(offset, length)] -> [bytes].

    The last `TAIL_BYTES` are fetched once and kept, since Parquet readers begin there.
    all_ahead   bytes that all files of this process may hold before they are needed
    """

    def __init__(self, fetch: FetchRanges, size: int, all_ahead: int = ALL_AHEAD_BYTES) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._all_ahead = all_ahead
        self._pos = 0
        self._tail: bytes | None = None
        self._expected: deque[_Step] = deque()
        self._held: _Step | None = None

    def expect(self, steps: Iterable[Sequence[tuple[int, int]]]) -> None:
        """Plan what `hold` will be called with, in this order; forget what was planned and held before."""
        self._expected, self._held = deque(map(_Step, steps)), None

    def hold(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Have some ranges in memory for the reads that follow, instead of those held before, and fetch those expected next.

        ranges   within the file
        errors   those of the store; CorruptFileError when the file ends before
        memory   these ranges; of those expected two times `AHEAD_BYTES`, in all files of the process `all_ahead`
        """
        self._held = None
        step = _Step(ranges)
        if self._expected and self._expected[0].ranges == step.ranges:
            step = self._expected.popleft()
        if not step.requested:
            _fetch_steps(self._fetch, [step, *self._next()])
        waiting = sum(s.bytes for s in self._expected if s.requested)
        ahead = self._next() if waiting < AHEAD_BYTES else []
        if ahead:
            # No pool: it would have to end with the file, and a process that forks would lose its threads.
            threading.Thread(target=_fetch_steps, args=(self._fetch, ahead), name="lakeidx-ahead").start()
        step.data.result()
        self._held = step

    def _next(self) -> list[_Step]:
        """Choose which of the expected steps to request now."""
        chosen: list[_Step] = []
        left = AHEAD_BYTES
        for step in self._expected:
            if step.requested:
                continue
            if (chosen and step.bytes > left) or not step.take_room(self._all_ahead):
                break
            step.requested = True
            chosen.append(step)
            left -= step.bytes
        return chosen

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
        data = self._read(self._pos, length)
        self._pos += len(data)
        return data

    def _read(self, start: int, length: int) -> bytes:
        if self._held is not None:
            for (offset, size), data in zip(self._held.ranges, self._held.data.result(), strict=True):
                if offset <= start and start + length <= offset + size:
                    return data[start - offset : start - offset + length]
        tail_start = max(0, self._size - TAIL_BYTES)
        if start < tail_start:
            return self._fetch([(start, length)])[0]
        if self._tail is None:
            self._tail = self._fetch([(tail_start, self._size - tail_start)])[0]
        return self._tail[start - tail_start : start - tail_start + length]


class RemoteInput(pa.PythonFile):  # type: ignore[misc]
    """A `RangeFile` as Arrow reads it."""

    def __init__(self, ranges: RangeFile, mode: str) -> None:
        # Arrow takes the arguments before this.
        super().__init__()
        self.ranges = ranges


def open_ranges(fetch: FetchRanges, size: int, all_ahead: int = ALL_AHEAD_BYTES) -> pa.NativeFile:
    """Open a file for random access by Arrow, over ranged reads.

    size        bytes of the file
    all_ahead   see `RangeFile`
    """
    if size <= WHOLE_FILE_BYTES:
        return pa.BufferReader(fetch([(0, size)])[0] if size else b"")
    return RemoteInput(RangeFile(fetch, size, all_ahead), "r")
