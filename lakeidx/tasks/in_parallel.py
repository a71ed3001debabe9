"""Reads of many small files side by side: on an object store nearly all of the time is waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner, Runner

S = TypeVar("S")
T = TypeVar("T")

#: Requests in flight at once.
REQUESTS = 16
_here = threading.local()


def in_parallel(work: Callable[[S], T], items: Sequence[S], *, threads: int = REQUESTS) -> list[T]:
    """Run `work` on every item in threads.

    threads   how many items at a time
    returns   results in the order of the items
    errors    the first item's error, as it is
    """
    if threads < 2 or len(items) < 2:
        return LocalRunner(1).map(work, items)

    def beside_others(item: S) -> T:
        _here.beside_others = True
        return work(item)

    return LocalRunner(threads).map(beside_others, items)


def requests_of(store: ObjectStore) -> int:
    """Return how many small files to read at once: threads would only pass the interpreter to each other where none waits."""
    return REQUESTS if store.waits else 1


def runner_of_small_files(runner: Runner, store: ObjectStore) -> Runner:
    """Return a runner for tasks that each write a small file or two: this process's threads mostly wait for an object store."""
    return runner.with_threads(REQUESTS) if store.waits and isinstance(runner, LocalRunner) else runner


def idle_cores() -> int:
    """Return over how many threads work that computes may spread: one inside of `in_parallel`, whose threads have the cores."""
    return 1 if getattr(_here, "beside_others", False) else available_cores()
