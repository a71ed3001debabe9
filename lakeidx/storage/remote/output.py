"""Output files of object stores, written in pieces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

from lakeidx.errors import InternalError
from lakeidx.storage.files import OutputFile

#: Of a multipart upload; objects of up to that many bytes are put at once.
PART_BYTES = 8 << 20
_QUEUED_PARTS = 2


class _Aborted(Exception):
    """The writer gave up: what was uploaded is removed."""


class RemoteOutput(OutputFile):
    """An object being written.

    put      puts the bytes of a small one
    upload   uploads the parts that it is given, and makes them an object when there are no more; when they raise, nothing is left
    """

    def __init__(
        self, put: Callable[[bytes], None], upload: Callable[[Iterator[bytes], Callable[[], int]], None]
    ) -> None:
        self._put, self._upload = put, upload
        self._buffer = bytearray()
        self._written = 0
        self._closed = False
        self._parts: Queue[bytes | None] = Queue(_QUEUED_PARTS)
        self._thread: threading.Thread | None = None
        self._aborted = self._drained = False
        self._error: BaseException | None = None

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        return self._closed

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        if self._closed:
            raise InternalError("write to a closed file")
        view = memoryview(data).cast("B")
        self._buffer += view
        self._written += len(view)
        while len(self._buffer) > PART_BYTES:
            with memoryview(self._buffer) as whole:
                part = bytes(whole[:PART_BYTES])
            del self._buffer[:PART_BYTES]
            self._send(part)
        return len(view)

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._written

    def close(self) -> None:
        """Finish the file and make it visible."""
        if self._closed:
            return
        if self._thread is None:
            self._closed = True
            self._put(bytes(self._buffer))
            return
        self._send(bytes(self._buffer))
        self._closed = True
        self._end(self._thread)
        if self._error is not None:
            raise self._error

    def abort(self) -> None:
        """Abort the file; uploaded parts are deleted."""
        if self._closed:
            return
        self._closed = self._aborted = True
        self._buffer.clear()
        if self._thread is not None:
            # An error of the removal matters less than the one that led here; stores drop unfinished uploads by their own rules.
            self._end(self._thread)

    def _send(self, part: bytes) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
            self._thread.start()
        self._parts.put(part)
        if self._error is not None:
            self.abort()
            raise self._error

    def _end(self, thread: threading.Thread) -> None:
        self._parts.put(None)
        thread.join()

    def _run(self) -> None:
        try:
            self._upload(self._taken(), self.tell)
        except BaseException as e:
            self._error = e
            # The writer must not wait for room.
            while not self._drained:
                self._drained = self._parts.get() is None

    def _taken(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None:
            yield part
        self._drained = True
        if self._aborted:
            raise _Aborted
