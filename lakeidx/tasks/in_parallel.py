"""Reads of many small files side by side: on an object store nearly all of the time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

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
