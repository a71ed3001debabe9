"""An output file that hands everything on, save its close, the moment it appears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeidx.storage.files import OutputFile, WriteOnly


class WatchedOutput(WriteOnly):
    """Hands everything on to an output file, whose close is the caller's.

    close   called in its place, once: closes it
    """

    def __init__(self, inner: OutputFile, close: Callable[[], None]) -> None:
        self._inner = inner
        self._close = close

    @property
    def closed(self) -> bool:
        """As the file within."""
        return self._inner.closed

    def write(self, data: Any, /) -> int:
        """Forward to the wrapped file."""
        return self._inner.write(data)

    def tell(self) -> int:
        """Forward to the wrapped file."""
        return self._inner.tell()

    def flush(self) -> None:
        """Forward to the wrapped file."""
        self._inner.flush()

    def close(self) -> None:
        """Let the caller finish the file; closing it again does nothing."""
        if not self._inner.closed:
            self._close()

    def abort(self) -> None:
        """Forward to the wrapped file."""
        self._inner.abort()
