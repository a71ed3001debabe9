"""A store that fails on purpose, for tests: before a call does anything, or after it did.

``store.fail("put_if_absent", "snapshot-7", when="after")`` makes the put of snapshot 7 succeed while its caller sees an error; with
``act`` a test runs anything at that moment, for instance another writer's commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pyarrow as pa

from lakeidx.errors import UnavailableError
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import OutputFile

T = TypeVar("T")
When = Literal["before", "after"]
Matches = str | Callable[[str], bool]


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong.

    verbs     method names; empty: all
    matches   part of the path, or a predicate over it
    act       called with (verb, path); raises the error, or does what the test wants done in the meantime
    times     how often it still happens
    skip      matching calls that pass before the first one that fails
    hits      how often it happened
    """

    verbs: frozenset[str]
    matches: Matches
    when: When
    act: Callable[[str, str], object]
    times: int
    skip: int = 0
    hits: int = 0

    def applies(self, verb: str, path: str) -> bool:
        """Return True when the fault refers to this call."""
        if self.verbs and verb not in self.verbs:
            return False
        return self.matches in path if isinstance(self.matches, str) else self.matches(path)


def _unavailable(verb: str, path: str) -> None:
    raise UnavailableError(f"fault injected into {verb}", path=path)


class FaultStore:
    """Hands calls on to another store, save where a `Fault` steps in. Thread-safe; faults do not travel when pickled."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["inner"])  # type: ignore[misc]

    def fail(
        self,
        verb: str | Sequence[str] = (),
        matches: Matches = "",
        *,
        when: When = "before",
        error: BaseException | Callable[[], BaseException] | None = None,
        act: Callable[[str, str], object] | None = None,
        times: int = 1,
        skip: int = 0,
    ) -> Fault:
        """Make chosen calls fail.

        verb    method name or several; none: every call
        error   what the caller sees (UnavailableError when left out); act: called instead of raising
        """
        verbs = frozenset((verb,) if isinstance(verb, str) else verb)

        def raise_error(verb: str, path: str) -> None:
            if error is None:
                _unavailable(verb, path)
            else:
                raise error if isinstance(error, BaseException) else error()

        fault = Fault(verbs, matches, when, act or raise_error, times, skip)
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

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

    def fresh_session(self) -> ObjectStore:
        """Return the store within, without faults."""
        return self.inner.fresh_session()

    def get(self, path: str) -> bytes:
        """Forward to the wrapped store."""
        return self._run("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Forward to the wrapped store."""
        return self._run("get_range", path, lambda: self.inner.get_range(path, offset, length))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Forward to the wrapped store."""
        return self._run("get_ranges", path, lambda: self.inner.get_ranges(path, ranges))

    def size(self, path: str) -> int:
        """Forward to the wrapped store."""
        return self._run("size", path, lambda: self.inner.size(path))

    def info(self, path: str) -> FileInfo | None:
        """Forward to the wrapped store."""
        return self._run("info", path, lambda: self.inner.info(path))

    def exists(self, path: str) -> bool:
        """Forward to the wrapped store."""
        return self._run("exists", path, lambda: self.inner.exists(path))

    def list(self, dir: str) -> list[FileInfo]:
        """Forward to the wrapped store."""
        return self._run("list", dir, lambda: self.inner.list(dir))

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """Forward to the wrapped store."""
        return self._run("walk", dir, lambda: self.inner.walk(dir))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Forward to the wrapped store."""
        self._run("put", path, lambda: self.inner.put(path, data, durable=durable))

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Put one after another, so that a fault can leave some of them."""
        for path, data in files:
            self.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Forward to the wrapped store."""
        return self._run("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def delete(self, path: str) -> None:
        """Forward to the wrapped store."""
        self._run("delete", path, lambda: self.inner.delete(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete with one call of verb ``delete`` per file, so that a fault can leave half of them."""
        for path in paths:
            self.delete(path)

    def delete_empty_dir(self, dir: str) -> bool:
        """Forward to the wrapped store."""
        return self._run("delete_empty_dir", dir, lambda: self.inner.delete_empty_dir(dir))

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Forward to the wrapped store."""
        return self._run("open_input", path, lambda: self.inner.open_input(path, size=size))

    def open_output(self, path: str) -> OutputFile:
        """Forward to the wrapped store; the file's close is a call of verb ``close_output``."""
        found = self._run("open_output", path, lambda: self.inner.open_output(path))
        return WatchedOutput(found, lambda: self._run("close_output", path, found.close))

    def _run(self, verb: str, path: str, call: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append((verb, path))
        self._strike(verb, path, "before")
        result = call()
        self._strike(verb, path, "after")
        return result

    def _strike(self, verb: str, path: str, when: When) -> None:
        with self._lock:
            due = []
            for fault in self._faults:
                if fault.when != when or fault.times <= 0 or not fault.applies(verb, path):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                fault.hits += 1
                due.append(fault)
        for fault in due:
            fault.act(verb, path)


class WatchedOutput(OutputFile):
    """An output file that hands everything on, save its close, the moment it appears.

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
