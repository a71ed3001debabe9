"""Work side by side on threads: many small files, where on an object store nearly all of the time is waiting, and iterators, whose
results are given in order, with a bound on what waits in memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.tasks.runner import LocalRunner, Runner

S = TypeVar("S")
T = TypeVar("T")

#: Requests in flight at once.
REQUESTS = 16
#: Bytes of a task up to which it mostly waits for its requests, and so many tasks fit into memory.
_SMALL_BYTES = 4 << 20


def in_parallel(work: Callable[[S], T], items: Sequence[S], *, threads: int = REQUESTS) -> list[T]:
    """Run `work` on every item in threads.

    threads   how many items at a time
    returns   results in the order of the items
    errors    the first item's error, as it is
    """
    if threads < 2 or len(items) < 2:
        return LocalRunner(1).map(work, items)
    return LocalRunner(threads).map(work, items)


def requests_of(store: ObjectStore, largest: int = 0) -> int:
    """Return how many small files to read at once: threads would only pass the interpreter to each other where none waits.

    largest   bytes of the largest; more than a few MB are no small files
    """
    return REQUESTS if store.waits and largest <= _SMALL_BYTES else 1


def runner_of_small_files(runner: Runner, store: ObjectStore, largest: int = 0) -> Runner:
    """Return a runner for tasks that each read or write small files: this process's threads mostly wait for an object store.

    largest   bytes of the largest task; the runner stays as it is for more than a few MB
    """
    return runner.with_threads(requests_of(store, largest)) if isinstance(runner, LocalRunner) else runner


def parallel_walk(store: ObjectStore, root: str, *, enough: int = 0) -> list[FileInfo]:
    """List all files below, at any depth; order not defined.

    enough   directories right below for which one walk will do, where each is known to hold few files
    cost     the requests of a listing of what is directly below, and of a walk through each directory in it
    """
    here = store.list(root)
    directories = [entry.path for entry in here if entry.is_dir]
    if 0 < len(directories) <= enough:
        return list(store.walk(root))
    # Not by ranges of names: some stores do not list them in their order.
    below = in_parallel(lambda directory: list(store.walk(directory)), directories)
    return [entry for entry in here if not entry.is_dir] + [file for found in below for file in found]


R = TypeVar("R")


class _Unit(Generic[R]):
    """Results of one item that no one has taken yet."""

    def __init__(self) -> None:
        self.results: deque[tuple[R, int]] = deque()
        self.done = False
        self.error: BaseException | None = None


def run_ordered(
    items: Sequence[T],
    work: Callable[[T], Iterator[R]],
    size_of: Callable[[R], int],
    *,
    threads: int,
    budget_bytes: int,
) -> Iterator[R]:
    """Run ``work(item)`` for every item, up to `threads` at a time; yields the results in the order of the items.

    budget_bytes   workers wait while more than this lies ready, except for the very result that is waited for
    errors         what `work` raises, when its item's turn has come
    stopping       closing the iterator stops the workers after the result they are making
    """
    if threads <= 1 or len(items) <= 1:
        for item in items:
            yield from work(item)
        return
    side_by_side = _SideBySide(items, work, size_of, budget_bytes)
    pool = ThreadPoolExecutor(min(threads, len(items)), "lakeidx-scan")
    try:
        for number in range(len(items)):
            pool.submit(side_by_side.run, number)
        for number in range(len(items)):
            yield from side_by_side.results(number)
    finally:
        side_by_side.stop()
        pool.shutdown(wait=True, cancel_futures=True)


class _SideBySide(Generic[T, R]):
    """Items being worked on, whose results one thread reads in order."""

    def __init__(
        self, items: Sequence[T], work: Callable[[T], Iterator[R]], size_of: Callable[[R], int], budget_bytes: int
    ) -> None:
        self._items, self._work, self._size_of, self._budget = items, work, size_of, budget_bytes
        self._units: list[_Unit[R]] = [_Unit() for _ in items]
        self._changed = threading.Condition()
        self._head = self._bytes = 0
        self._stopped = False

    def run(self, number: int) -> None:
        """Work on an item (in a worker)."""
        unit = self._units[number]
        try:
            if self._stopped:
                return
            for result in self._work(self._items[number]):
                if not self._put(number, result):
                    return
        except BaseException as error:
            unit.error = error
        finally:
            with self._changed:
                unit.done = True
                self._changed.notify_all()

    def _put(self, number: int, result: R) -> bool:
        """Wait for room, and leave a result; False when it is not wanted any more."""
        unit, size = self._units[number], self._size_of(result)
        with self._changed:
            while not self._stopped and self._bytes > self._budget and (self._head != number or unit.results):
                self._changed.wait()
            if self._stopped:
                return False
            unit.results.append((result, size))
            self._bytes += size
            self._changed.notify_all()
        return True

    def results(self, number: int) -> Iterator[R]:
        """Yield an item's results as they come, and raise the error of its work."""
        unit = self._units[number]
        with self._changed:
            self._head = number
            self._changed.notify_all()
        while True:
            with self._changed:
                while not unit.results and not unit.done:
                    self._changed.wait()
                if not unit.results:
                    break
                result, size = unit.results.popleft()
                self._bytes -= size
                self._changed.notify_all()
            yield result
        if unit.error is not None:
            raise unit.error

    def stop(self) -> None:
        """Let workers end after the result they are making."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
