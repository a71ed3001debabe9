"""Reads of many small files side by side: on an object store nearly all of the time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lakeidx.tasks.runner import LocalRunner

S = TypeVar("S")
T = TypeVar("T")

#: Requests in flight at once.
REQUESTS = 16


def in_parallel(work: Callable[[S], T], items: Sequence[S], *, threads: int = REQUESTS) -> list[T]:
    """Run `work` on every item in threads.

    threads   how many items at a time
    returns   results in the order of the items
    errors    the first item's error, as it is
    """
    return LocalRunner(threads).map(work, items)
